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

/* plan_options.may_take. */
static int may_take(void *ctx, uint64_t bytes, err *e)
{
    lease *l = ctx;
    return quota_take(l->base.host->memory, &l->base.quota, bytes, part_bytes(l->part), e);
}

static int open_plan(lease *l, err *e)
{
    const part_ask a = {.by = &l->base,
                        .fetches = l->fetches,
                        .asked = &l->ask,
                        .weights = l->weights,
                        .spec = l->spec,
                        .devices = &l->devices,
                        .flat = buf_span(&l->flat)};
    plan_options o = part_plan_options(&a);
    int rc = err_copy(e, &l->refused);
    if (!rc) rc = part_take(&l->part, &a, e);
    o.may_take = may_take;
    o.ctx = l;
    if (!rc) o.shares = part_plan(l->part);
    if (!rc) rc = plan_open(&l->plan, part_model(l->part)->prog, &o, e);
    if (!rc && plan_segments(l->plan) != l->ask.ranks) rc = err_set(e, ERR_FORMAT, "another number of ranks");
    const rank_links_shape these = rc ? (rank_links_shape){0} : rank_links_of_plan(l->plan);
    if (!rc) rc = hosted_make_links(&l->base, &these, plan_own_node(l->plan), e);
    if (!rc) rc = may_take(l, lease_taken_bytes(l), e);
    l->opened = !rc;
    return rc;
}

static int answer_lease(void *rank, span payload, buf *more, err *e)
{
    lease *l = rank;
    const int protocol = peer_protocol(l->base.control);
    (void)payload; /* lease_open has read it */
    int rc = open_plan(l, e);
    if (!rc && protocol >= PROTOCOL_LISTS) lease_hashed_write(more, part_hashed_at(l->part));
    if (!rc && protocol >= PROTOCOL_SHARED) rc = lease_tell_memory(l, l->ask.k_type, l->ask.v_type, more, e);
    atomic_fetch_add(&l->base.host->done->refused, rc && rc != ERR_CANCELLED);
    return rc;
}

const msg_handler on_LEASE = {visitor_admit, take_lease, answer_lease};
