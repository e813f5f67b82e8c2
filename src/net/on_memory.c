/* on_memory.c - MEMORY on a node: what pages of a lease would take, and what is left for them within what the node
 * lends. */
#include "net/lease_state.h"
#include "plan/plan_memory.h"

#include <string.h>

/* Bytes of the node's memory that the steps of the lease take. */
static uint64_t step_bytes(const lease *l) { return lease_taken_bytes(l) - l->base.quota; }

/* As plan_memory. */
static int look_at_memory(const lease *l, dtype k_type, dtype v_type, lease_memory *m, err *e)
{
    plan_room room;
    if (!plan_memory(l->plan, 0, k_type, v_type, &room)) return err_set(e, ERR_FORMAT, "no rank is here");
    memcpy(m->page, room.page, sizeof m->page);
    m->slot = room.slot;
    m->left = room.left;
    const uint64_t left = quota_left(l->base.host->memory), more = step_bytes(l);
    if (left < m->left + more) m->left = left > more ? left - more : 0;
    return OK;
}

int lease_check_pages(const lease *l, const cache_options *cache, err *e)
{
    lease_memory m = {.left = 0};
    uint64_t needs = 0;
    int rc = look_at_memory(l, cache->k_type, cache->v_type, &m, e);
    if (rc) return rc;
    for (int g = 0; g < GROUP_MAX; g++) needs += (uint64_t)cache->n_page[g] * m.page[g];
    needs += (uint64_t)cache->n_slot * m.slot;
    if (needs <= m.left) return OK;
    const uint64_t held = part_bytes(l->part) + l->base.quota, left = quota_left(l->base.host->memory);
    const uint64_t more = step_bytes(l), most = left < more ? left : more + m.left; /* without the bytes held */
    return quota_refuse(l->base.host->memory, held + most, held + more + needs, e);
}

int lease_tell_memory(const lease *l, dtype k_type, dtype v_type, buf *out, err *e)
{
    lease_memory m = {.left = 0};
    int rc = look_at_memory(l, k_type, v_type, &m, e);
    if (!rc) m.left /= (uint64_t)plan_sharers(l->plan);
    if (!rc && !lease_memory_write(out, &m)) rc = err_memory(e, NULL);
    return rc;
}

static int answer_memory(void *rank, span payload, buf *more, err *e)
{
    const lease *l = rank;
    dtype k_type, v_type;
    int rc = lease_types_read(&k_type, &v_type, payload, e);
    if (!rc && !l->opened) rc = err_set(e, ERR_FORMAT, "a question about memory before the lease");
    return rc ? rc : lease_tell_memory(l, k_type, v_type, more, e);
}

const msg_handler on_MEMORY = {.take = hosted_put_off, .answer = answer_memory};
