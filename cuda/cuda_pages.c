/* cuda_pages.c - pages of keys and values. Those of the last states may lie in pinned memory of the host
 * (cache_options.host): a kernel finds the tiles of a state by its address and stride (ops/held.h), wherever they are.
 * A page as bytes is its part on the device, then that on the host. */
#include "cuda/cuda_state.h"

#include "base/mem.h"
#include "core/kv_type.h"

#include <inttypes.h>
#include <string.h>

/* Where the tiles of each state of a group begin. */
static void place_states(cuda_device *d, int group, uint32_t host_from)
{
    const cuda_pages *g = &d->pages[group];
    uint64_t own = 0, host = 0;
    for (uint32_t i = 0; i < d->p->n_state; i++) {
        kv_store *s = &d->kv[i];
        const bool here = i < host_from;
        if (!s->k_page || d->p->states[i].group != group) continue;
        s->k = (uint8_t *)(uintptr_t)(here ? g->at + own : g->host.at + host);
        s->v = s->k + s->k_page;
        s->stride = here ? g->bytes : g->host_bytes;
        *(here ? &own : &host) += s->k_page + s->v_page;
    }
}

static int open_group(cuda_device *d, int group, uint32_t host_from, err *e)
{
    const cache_options *c = &d->cache;
    const uint64_t each = kv_place(d->kv, d->p, group, c->k_type, c->v_type, NULL), pages = (uint64_t)c->n_page[group];
    cuda_pages *g = &d->pages[group];
    uint64_t all;
    if (!mem_mul(each, pages, &all)) return err_set(e, ERR_MEMORY, "a cache of %" PRIu64 " pages is too large", pages);
    for (uint32_t i = 0; i < d->p->n_state && each; i++)
        if (d->p->states[i].group == group)
            *(i < host_from ? &g->bytes : &g->host_bytes) += d->kv[i].k_page + d->kv[i].v_page;
    int rc = g->bytes ? cuda_take(&d->q, g->bytes * pages, "the cache", &g->at, e) : OK;
    if (!rc) rc = cuda_pin(&d->q, g->host_bytes * pages, "the cache", &g->host, e);
    if (!rc) place_states(d, group, host_from);
    return rc;
}

int cuda_pages_open(cuda_device *d, err *e)
{
    const uint32_t host_from = kv_host_from(d->p, d->cache.host);
    int rc = OK;
    for (int g = 0; g < GROUP_MAX && !rc; g++) rc = open_group(d, g, host_from, e);
    return rc;
}

void cuda_pages_close(cuda_device *d)
{
    for (int g = 0; g < GROUP_MAX; g++) {
        cuda_give(&d->q, &d->pages[g].at, 0);
        cuda_unpin(&d->q, &d->pages[g].host);
    }
}

/* A page, when what the device was asked for is done. */
static int find_page(cuda_device *d, int group, int32_t page, cu_address *at, uint8_t **host, err *e)
{
    if (group < 0 || group >= GROUP_MAX || page < 0 || page >= d->cache.n_page[group])
        return err_set(e, ERR_USAGE, "no page %d in group %d", page, group);
    const cuda_pages *g = &d->pages[group];
    *at = g->at + (uint64_t)page * g->bytes;
    *host = g->host_bytes ? g->host.host + (uint64_t)page * g->host_bytes : NULL;
    return cuda_wait(&d->q, e);
}

/* Reads a slot, or writes it, when what the device was asked for is done. */
static int move_slot(cuda_device *d, int32_t slot, uint8_t *to, const uint8_t *from, err *e)
{
    int rc = slot >= 0 && slot < d->cache.n_slot ? cuda_wait(&d->q, e) : err_set(e, ERR_USAGE, "no slot %d", slot);
    for (uint32_t i = 0; i < d->p->n_op && !rc; i++) {
        const op *o = &d->p->ops[i];
        if (!op_is(o, OPF_SLOT)) continue;
        const uint64_t n = (uint64_t)d->p->states[o->state].slot_floats * sizeof(float);
        const cu_address at = (cu_address)(uintptr_t)slot_at(&d->slots[o->state], slot);
        if (to) rc = cuda_fetch(&d->q, to, at, n, e), to += n;
        else rc = cuda_send(&d->q, at, from, n, e), from += n;
    }
    return rc || to ? rc : cuda_wait(&d->q, e);
}

int cuda_page_get(dev *of, int group, int32_t page, uint8_t *to, err *e)
{
    cuda_device *d = cuda_device_of(of);
    if (group == GROUP_MAX) return move_slot(d, page, to, NULL, e);
    cu_address at;
    uint8_t *host;
    int rc = find_page(d, group, page, &at, &host, e);
    const uint64_t bytes = rc ? 0 : d->pages[group].bytes;
    if (bytes) rc = cuda_fetch(&d->q, to, at, bytes, e);
    if (!rc && host) memcpy(to + bytes, host, d->pages[group].host_bytes);
    return rc;
}

int cuda_page_put(dev *of, int group, int32_t page, const uint8_t *from, err *e)
{
    cuda_device *d = cuda_device_of(of);
    if (group == GROUP_MAX) return move_slot(d, page, NULL, from, e);
    cu_address at;
    uint8_t *host;
    int rc = find_page(d, group, page, &at, &host, e);
    const uint64_t bytes = rc ? 0 : d->pages[group].bytes;
    if (!rc && host) memcpy(host, from + bytes, d->pages[group].host_bytes);
    if (!rc) rc = cuda_send(&d->q, at, from, bytes, e);
    return rc ? rc : cuda_wait(&d->q, e);
}

static int copy_part(cuda_device *d, cu_address base, const page_copy *c, uint64_t bytes, err *e)
{
    if (!bytes) return OK;
    return cuda_copy(&d->q, base + (uint64_t)c->to * bytes, d->q.context, base + (uint64_t)c->from * bytes, bytes, e);
}

int cuda_pages_copy(cuda_device *d, const step *st, err *e)
{
    int rc = OK;
    for (int32_t i = 0; i < st->n_copy && !rc; i++) {
        const page_copy *c = &st->copies[i];
        const cuda_pages *g = &d->pages[c->group];
        rc = copy_part(d, g->at, c, g->bytes, e);
        if (!rc) rc = copy_part(d, g->host.at, c, g->host_bytes, e);
    }
    return rc;
}
