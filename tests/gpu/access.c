/* access.c - where the bytes are that an instruction names by an address. */
#include "tests/gpu/access.h"
#include "tests/gpu/proxy.h"

static const char *const verbs[] = {"", "reads", "writes", "changes"};

static uint8_t *outside(warp *w, int l, const char *space, uint64_t at, unsigned bytes, int touch)
{
    machine_fault(w, l, FAULT_ADDRESS, "%s %u bytes at %#llx, outside of its %s memory", verbs[touch & 3], bytes,
                  (unsigned long long)at, space);
    return NULL;
}

static gpu_range **near_of(const warp *w) { return &w->block->of->near[(uintptr_t)w->now / sizeof(inst) % NEAR]; }

static uint8_t *global_at(warp *w, int l, uint64_t at, unsigned bytes, int touch)
{
    const launch *of = w->block->of;
    gpu_range **near = near_of(w);
    if (!gpu_range_holds(*near, at, bytes)) *near = gpu_range_near(at);
    if (!gpu_range_holds(*near, at, bytes)) {
        *near = NULL;
        machine_fault(w, l, FAULT_ADDRESS, "%s %u bytes at %#llx: %s", verbs[touch & 3], bytes, (unsigned long long)at,
                      gpu_tell(at));
        return NULL;
    }
    if (!gpu_may_touch(of->device, *near)) {
        machine_fault(w, l, FAULT_ADDRESS, "%s %u bytes at %#llx, which device %d may not touch: %s", verbs[touch & 3],
                      bytes, (unsigned long long)at, of->device, gpu_tell(at));
        *near = NULL;
        return NULL;
    }
    if (race_on()) {
        if (!(*near)->shadow) (*near)->shadow = race_shadow_new((*near)->size, false);
        race_touch(w, l, (*near)->shadow, at - (*near)->at, bytes, touch);
    }
    return (*near)->host + (at - (*near)->at);
}

uint8_t *access_at(warp *w, int l, ptx_space space, uint64_t at, unsigned bytes, unsigned align, int touch)
{
    if (at & (align - 1)) {
        machine_fault(w, l, FAULT_MISALIGNED, "%s %u bytes at %#llx, no multiple of %u", verbs[touch & 3], bytes,
                      (unsigned long long)at, align);
        return NULL;
    }
    const uint64_t window = at & ~WINDOW_OFFSET, offset = at & WINDOW_OFFSET;
    if (!window && space <= SPACE_CONST) return global_at(w, l, at, bytes, touch);
    if (space == SPACE_SHARED || (space == SPACE_GENERIC && window == WINDOW_SHARED)) {
        const uint32_t size = w->block->shared_bytes;
        if (offset < SHARED_START || bytes > size || offset - SHARED_START > size - bytes ||
            (space == SPACE_SHARED && window))
            return outside(w, l, "shared", at, bytes, touch);
        if (race_on()) race_touch(w, l, w->block->shadow, offset - SHARED_START, bytes, touch & ~TOUCH_ASYNC);
        if (w->block->proxy && touch & TOUCH_WRITE) {
            if (touch & TOUCH_ASYNC) proxy_copy(w->block, offset - SHARED_START, bytes);
            else proxy_store(w, l, offset - SHARED_START, bytes);
        }
        return w->block->shared + (offset - SHARED_START);
    }
    if (space == SPACE_LOCAL || (space <= SPACE_GENERIC && window == WINDOW_LOCAL) ||
        (space == SPACE_PARAM && window == WINDOW_LOCAL)) {
        const uint64_t size = (uint64_t)w->local_bytes;
        if (offset < LOCAL_START || bytes > size || offset - LOCAL_START > size - bytes)
            return outside(w, l, "local", at, bytes, touch);
        return w->local + (size_t)size * (size_t)l + (offset - LOCAL_START);
    }
    if (window == WINDOW_PARAM) {
        const uint64_t size = (uint64_t)w->block->of->p->m->function[w->block->of->function].param_bytes;
        if (touch & TOUCH_WRITE || bytes > size || offset > size - bytes)
            return outside(w, l, "parameter", at, bytes, touch);
        return w->block->of->params + offset;
    }
    return global_at(w, l, at, bytes, touch);
}

/* Lanes whose bytes lie in the range that this instruction touched last: their offsets, and which lanes these are. */
static uint32_t in_range(const gpu_range *r, uint32_t mask, const uint64_t at[LANES], unsigned bytes,
                         uint64_t off[LANES])
{
    uint32_t in = 0;
    for (int l = 0; l < LANES; l++) {
        off[l] = at[l] - r->at;
        in |= (uint32_t)(off[l] <= r->size - bytes && !(at[l] & (bytes - 1))) << l;
    }
    return in & mask;
}

bool access_lanes(warp *w, uint32_t mask, ptx_space space, const uint64_t at[LANES], unsigned bytes, int touch,
                  uint8_t *p[LANES])
{
    gpu_range *r = space <= SPACE_CONST ? *near_of(w) : NULL;
    if (r && !r->freed && r->size >= bytes && gpu_may_touch(w->block->of->device, r)) {
        uint64_t off[LANES];
        const uint32_t in = in_range(r, mask, at, bytes, off);
        if (race_on() && in) race_touch_lanes(w, in, r->shadow, off, bytes, touch);
        for (uint32_t m = in; m; m &= m - 1) p[__builtin_ctz(m)] = r->host + off[__builtin_ctz(m)];
        mask &= ~in;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        p[l] = access_at(w, l, space, at[l], bytes, bytes, touch);
        if (!p[l]) return false;
    }
    return !w->block->of->fault;
}
