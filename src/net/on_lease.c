/* on_lease.c - LEASE on a node: a visitor becomes the leader of a rank of a plan, whose part of the model is opened. */
#include "net/lease_state.h"
#include "net/node_state.h"

#include <stdatomic.h>

static int take_lease(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    visitor *g = to;
    tally *done = &g->of->done;
    const int rc = visitor_host(g, lease_open, span_of(payload, h->bytes), e);
    (void)from;
    atomic_fetch_add(&done->leases, 1);
    atomic_fetch_add(&done->refused, rc != OK);
    return visitor_settle(g, rc, e);
}

static int open_part(lease *l, err *e)
{
    const part_ask a = {.by = &l->base,
                        .fetches = l->fetches,
                        .asked = &l->ask,
                        .weights = l->weights,
                        .spec = l->spec,
                        .devices = &l->devices,
                        .flat = buf_span(&l->flat)};
    int rc = err_copy(e, &l->refused);
    if (!rc) rc = part_open(&l->part, &a, e);
    if (!rc) l->plan = part_plan(l->part);
    if (!rc && plan_segments(l->plan) != l->ask.ranks) rc = err_set(e, ERR_FORMAT, "another number of ranks");
    const rank_links_shape these = rc ? (rank_links_shape){0} : rank_links_of_plan(l->plan);
    if (!rc) rc = hosted_make_links(&l->base, &these, plan_own_node(l->plan), e);
    if (!rc) rc = quota_take(l->base.host->memory, &l->base.quota, lease_taken_bytes(l), e);
    l->opened = !rc;
    return rc;
}

static int answer_lease(void *rank, span payload, buf *more, err *e)
{
    lease *l = rank;
    const int protocol = peer_protocol(l->base.control);
    (void)payload; /* lease_open has read it */
    int rc = open_part(l, e);
    if (!rc && protocol >= PROTOCOL_LISTS) lease_hashed_write(more, part_hashed_at(l->part));
    if (!rc && protocol >= PROTOCOL_SHARED) rc = lease_tell_memory(l, l->ask.k_type, l->ask.v_type, more, e);
    atomic_fetch_add(&l->base.host->done->refused, rc && rc != ERR_CANCELLED);
    return rc;
}

const msg_handler on_LEASE = {visitor_admit, take_lease, answer_lease};
