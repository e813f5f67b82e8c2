/* on_ready.c - READY on a node: pages and slots of a lease are made; steps may come. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/lease_state.h"
#include "plan/remote.h"
#include "plan/plan_part.h"

#include <stdatomic.h>

static int get_ready(lease *l, span payload, err *e)
{
    cache_options cache;
    step_limits limits;
    link_end *ends[LINK_RANKS_MAX][PLAN_LANES] = {{NULL}};
    hosted_rank *r = &l->base;
    const model *m = l->opened ? part_model(l->part) : NULL;
    int rc = lease_cache_read(&cache, payload, e);
    if (!rc && (!l->opened || l->reader)) rc = err_set(e, ERR_FORMAT, "a request for pages out of turn");
    if (rc) return rc;
    rc = step_limits_of(&limits, m->prog, plan_asked(l->plan)->max_rows, l->ask.sequences, m->ctx, &cache, e);
    if (!rc) rc = step_reader_open(&l->reader, m->prog, &limits, (int)l->ask.choices.in_flight, e);
    l->step_bytes = rc ? 0 : step_code_max(&limits);
    if (!rc && !(l->step_room = mem_alloc(l->step_bytes))) rc = err_memory(e, "steps");
    for (int k = 0; k < plan_lanes(l->plan); k++) ends[r->rank][k] = rank_links_end(r->links, r->rank, k);
    if (!rc) rc = lease_check_pages(l, &cache, e);
    if (!rc) rc = plan_ready(l->plan, &cache, ends, e);
    if (!rc) rc = quota_take(r->host->memory, &r->quota, lease_taken_bytes(l), part_bytes(l->part), e);
    if (!rc) rc = hosted_await_links(r, e);
    return rc ? rc : lease_begin_steps(l, e);
}

static void say_ready(lease *l)
{
    plan_part *parts;
    const int n = plan_segments(l->plan), rank = l->base.rank;
    int layers = 0;
    for (int i = 0; i < n; i++)
        if (!i || plan_group_of(l->plan, i) != plan_group_of(l->plan, i - 1)) layers += plan_layers_of(l->plan, i);
    l->ready_at = clock_now();
    if (plan_parts(l->plan, &parts, NULL)) return;
    log_line(LOG_INFO, "lease of %s: rank %d of %d is ready: %.80s, %d of %d layers, %.1f MiB of weights",
             peer_name(l->base.control), rank, n, part_model(l->part)->arch, plan_layers_of(l->plan, rank), layers,
             (double)parts[rank].weight_bytes / 0x1p20);
    mem_free(parts);
}

static int answer_ready(void *rank, span payload, buf *more, err *e)
{
    lease *l = rank;
    int rc = get_ready(l, payload, e);
    (void)more;
    if (!rc) say_ready(l);
    atomic_fetch_add(&l->base.host->done->refused, rc && rc != ERR_CANCELLED);
    return rc;
}

const msg_handler on_READY = {.take = hosted_put_off, .answer = answer_ready};
