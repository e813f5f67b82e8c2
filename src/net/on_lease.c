/* on_lease.c - LEASE on a node: a visitor becomes the leader of a rank of a plan, whose part of the model is opened. */
#include "net/lease_state.h"
#include "net/node_state.h"
#include "plan/plan.h"

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

static int open_plan(lease *l, err *e)
{
    const rank_host *host = l->base.host;
    plan_options o = {.devices = &l->devices,
                      .backends = host->backends,
                      .choices = l->ask.choices,
                      .rank = l->ask.rank + 1,
                      .as = host->as,
                      .lends = host->devices};
    for (int i = 0; i < AXIS_COUNT; i++) o.max_rows[i] = l->ask.max_rows[i];
    int rc = err_copy(e, &l->refused);
    if (!rc) rc = lease_read_list(l, e);
    if (!rc) rc = lease_place_model(l, &o, e);
    if (!rc && plan_segments(l->l) != l->ask.ranks) rc = err_set(e, ERR_FORMAT, "another number of ranks");
    const rank_links_shape these = rc ? (rank_links_shape){0} : rank_links_of_plan(l->l);
    if (!rc) rc = hosted_make_links(&l->base, &these, plan_own_node(l->l), e);
    if (!rc) rc = quota_take(host->memory, &l->base.quota, lease_taken_bytes(l), e);
    l->opened = !rc;
    return rc;
}

static int answer_lease(void *rank, span payload, buf *more, err *e)
{
    lease *l = rank;
    const int protocol = peer_protocol(l->base.control);
    (void)payload; /* lease_open has read it */
    int rc = open_plan(l, e);
    if (!rc && protocol >= PROTOCOL_LISTS) lease_hashed_write(more, l->hashed_at);
    if (!rc && protocol >= PROTOCOL_SHARED) rc = lease_tell_memory(l, l->ask.k_type, l->ask.v_type, more, e);
    atomic_fetch_add(&l->base.host->done->refused, rc && rc != ERR_CANCELLED);
    return rc;
}

const msg_handler on_LEASE = {visitor_admit, take_lease, answer_lease};
