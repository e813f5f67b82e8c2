/* access.c - where the bytes are that an instruction names by an address. */
#include "tests/gpu/access.h"

static const char *const verbs[] = {"", "reads", "writes", "changes"};

static uint8_t *outside(warp *w, int l, const char *space, uint64_t at, unsigned bytes, int touch)
{
    machine_fault(w, l, FAULT_ADDRESS, "%s %u bytes at %#llx, outside of its %s memory", verbs[touch & 3], bytes,
                  (unsigned long long)at, space);
    return NULL;
}

static uint8_t *global_at(warp *w, int l, uint64_t at, unsigned bytes, int touch)
{
    launch *of = w->block->of;
    if (!gpu_range_holds(of->near, at, bytes)) of->near = gpu_range_near(at);
    if (!gpu_range_holds(of->near, at, bytes)) {
        of->near = NULL;
        machine_fault(w, l, FAULT_ADDRESS, "%s %u bytes at %#llx: %s", verbs[touch & 3], bytes, (unsigned long long)at,
                      gpu_tell(at));
        return NULL;
    }
    if (!gpu_may_touch(of->device, of->near)) {
        machine_fault(w, l, FAULT_ADDRESS, "%s %u bytes at %#llx, which device %d may not touch: %s", verbs[touch & 3],
                      bytes, (unsigned long long)at, of->device, gpu_tell(at));
        of->near = NULL;
        return NULL;
    }
    if (race_on()) {
        if (!of->near->shadow) of->near->shadow = race_shadow_new(of->near->size, false);
        race_touch(w, l, of->near->shadow, at - of->near->at, bytes, touch);
    }
    return of->near->host + (at - of->near->at);
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
        if (race_on()) race_touch(w, l, w->block->shadow, offset - SHARED_START, bytes, touch);
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
