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

/* A piece of memory in which the lanes of an instruction may lie side by side. */
typedef struct region {
    const char *name;
    uint64_t at, size;  /* as the addresses of the instruction say */
    uint8_t *host;      /* of lane 0 */
    size_t step;        /* from one lane's memory to the next one's */
    bool of_lane;       /* each lane has its own */
    gpu_shadow *shadow; /* NULL: no two threads share it */
} region;

/* The region of shared memory, local memory or parameters that an address of the space is in; false where it is in none
 * of these. */
static bool region_near(const warp *w, ptx_space space, uint64_t at, region *r)
{
    const uint64_t window = at & ~WINDOW_OFFSET;
    const block *b = w->block;
    if ((space == SPACE_SHARED && !window) || (space == SPACE_GENERIC && window == WINDOW_SHARED)) {
        *r = (region){"shared", window | SHARED_START, b->shared_bytes, b->shared, 0, false, b->shadow};
        return true;
    }
    if (space == SPACE_LOCAL || ((space == SPACE_GENERIC || space == SPACE_PARAM) && window == WINDOW_LOCAL)) {
        const uint64_t size = (uint64_t)w->local_bytes;
        *r = (region){"local", window | LOCAL_START, size, w->local, size, true, NULL};
        return true;
    }
    if (space != SPACE_SHARED && window == WINDOW_PARAM) {
        const launch *of = b->of;
        const uint64_t size = (uint64_t)of->p->m->function[of->function].param_bytes;
        *r = (region){"parameter", window, size, (uint8_t *)of->params, 0, false, NULL};
        return true;
    }
    return false;
}

uint8_t *access_at(warp *w, int l, ptx_space space, uint64_t at, unsigned bytes, unsigned align, int touch)
{
    region r;
    if (at & (align - 1)) {
        machine_fault(w, l, FAULT_MISALIGNED, "%s %u bytes at %#llx, no multiple of %u", verbs[touch & 3], bytes,
                      (unsigned long long)at, align);
        return NULL;
    }
    if (region_near(w, space, at, &r)) {
        const uint64_t offset = at - r.at;
        if (at < r.at || bytes > r.size || offset > r.size - bytes || (r.at == WINDOW_PARAM && touch & TOUCH_WRITE))
            return outside(w, l, r.name, at, bytes, touch);
        if (race_on() && r.shadow) race_touch(w, l, r.shadow, offset, bytes, touch & ~TOUCH_ASYNC);
        if (!r.of_lane && w->block->proxy && touch & TOUCH_WRITE) {
            if (touch & TOUCH_ASYNC) proxy_copy(w->block, offset, bytes);
            else proxy_store(w, l, offset, bytes);
        }
        return r.host + r.step * (size_t)l + offset;
    }
    if (space == SPACE_SHARED) return outside(w, l, "shared", at, bytes, touch);
    return global_at(w, l, at, bytes, touch);
}

/* The lanes of mask whose bytes lie in the region, and their offsets there. */
static uint32_t in_region(const region *r, uint32_t mask, const uint64_t at[LANES], unsigned bytes, uint64_t off[LANES])
{
    uint32_t in = 0;
    for (int l = 0; l < LANES; l++) {
        off[l] = at[l] - r->at;
        in |= (uint32_t)(off[l] <= r->size - bytes && !(at[l] & (bytes - 1))) << l;
    }
    return in & mask;
}

/* Where the first lane is, or where this instruction touched last. */
static bool region_likely(const warp *w, ptx_space space, uint64_t at, int touch, region *r)
{
    if (region_near(w, space, at, r))
        return r->of_lane || !(touch & TOUCH_WRITE) || (r->at != WINDOW_PARAM && !w->block->proxy);
    const gpu_range *near = space <= SPACE_CONST ? *near_of(w) : NULL;
    if (!near || near->freed) return false;
    *r = (region){"global", near->at, near->size, near->host, 0, false, near->shadow};
    return true;
}

bool access_lanes(warp *w, uint32_t mask, ptx_space space, const uint64_t at[LANES], unsigned bytes, int touch,
                  uint8_t *p[LANES])
{
    region r;
    if (region_likely(w, space, at[__builtin_ctz(mask)], touch, &r) && r.size >= bytes) {
        uint64_t off[LANES];
        const uint32_t in = in_region(&r, mask, at, bytes, off);
        if (race_on() && r.shadow && in) race_touch_lanes(w, in, r.shadow, off, bytes, touch);
        for (int l = 0; l < LANES; l++) p[l] = (uint8_t *)((uintptr_t)r.host + r.step * (size_t)l + off[l]);
        mask &= ~in;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        p[l] = access_at(w, l, space, at[l], bytes, bytes, touch);
        if (!p[l]) return false;
    }
    return !w->block->of->fault;
}
