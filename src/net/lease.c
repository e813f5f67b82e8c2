/* lease.c - see lease.h. Its messages: on_lease.c, on_memory.c, on_ready.c, on_step.c. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/lease_state.h"
#include "plan/drive.h"
#include "plan/remote.h"

#include <inttypes.h>
#include <string.h>

/* ---- what a rank of any kind has */

static void *lease_receiver(hosted_rank *r, peer *p, const frame_head *h, msg_receiver kind)
{
    lease *l = (lease *)r;
    switch ((int)kind) {
    case FOR_LEASE: return l;
    case FOR_FETCH: return l->fetches;
    case FOR_MAILBOXES: return rank_links_shared_mailboxes(hosted_links(r), p, h);
    default: return NULL;
    }
}

static void add_progress(hosted_rank *r, progress *to)
{
    lease *l = (lease *)r;
    const bool carries = to->busy;
    pthread_mutex_lock(&r->lock);
    const bool ready = l->ready;
    to->busy |= l->sent > l->done;
    to->work += l->done;
    pthread_mutex_unlock(&r->lock);
    if (carries) parts_add_progress(r->host->parts, r, to);
    if (!ready || carries) return;
    const plan_progress steps = plan_progress_now(l->plan);
    to->work += steps.work;
    to->alive = steps.alive;
    to->waits = steps.waits;
}

static void end_fetching(hosted_rank *r, const err *why)
{
    const lease *l = (lease *)r;
    if (l->fetches) fetch_end(l->fetches, why);
}

static void stop_collecting(hosted_rank *r)
{
    lease *l = (lease *)r;
    if (l->collects) pthread_join(l->collector, NULL);
    l->collects = false;
}

static void close_lease(hosted_rank *r)
{
    lease *l = (lease *)r;
    plan_close(l->plan);
    step_reader_close(l->reader); /* of the part's program */
    part_give_back(l->part);
    fetch_close(l->fetches);
    mem_free(l->step_room);
    device_list_close(&l->devices);
    mem_free(l->weights);
    mem_free(l->spec);
    buf_free(&l->flat);
}

static const hosted_kind lease_kind = {.first = MSG_LEASE,
                                       .receiver = lease_receiver,
                                       .add_progress = add_progress,
                                       .end = end_fetching,
                                       .stop = stop_collecting,
                                       .close = close_lease};

lease *lease_of(hosted_rank *r) { return r->kind == &lease_kind ? (lease *)r : NULL; }

/* ---- what a node asks of it */

bool lease_is_ready(lease *l)
{
    pthread_mutex_lock(&l->base.lock);
    const bool ready = l->ready;
    pthread_mutex_unlock(&l->base.lock);
    return ready;
}

uint64_t lease_steps(lease *l)
{
    pthread_mutex_lock(&l->base.lock);
    const uint64_t n = l->base.over ? 0 : l->sent - l->done;
    pthread_mutex_unlock(&l->base.lock);
    return n;
}

uint64_t lease_taken_bytes(const lease *l)
{
    return plan_taken_bytes(l->plan) + l->step_bytes * (uint64_t)(l->ask.choices.in_flight + 1);
}

void lease_lose_part(lease *l, const err *why)
{
    part_forget(l->part);
    hosted_end(&l->base, why);
}

void lease_look(lease *l)
{
    err why = {0};
    if (lease_is_ready(l) && part_look(l->part, &why)) lease_lose_part(l, &why);
}

void lease_lose_file(lease *l, const file_id *id, const err *why)
{
    if (!lease_is_ready(l)) hosted_end(&l->base, why);
    else if (part_reads_file(l->part, id)) lease_lose_part(l, why);
}

void lease_say_end(const lease *l, const char *why)
{
    if (!l->ready_at) return;
    log_line(LOG_INFO, "lease of %s: rank %d of %d has ended after %.1f s and %" PRIu64 " steps: %s",
             peer_name(l->base.control), l->base.rank, l->base.ranks, clock_now() - l->ready_at, l->done,
             why ? why : l->base.why.msg);
}

/* ---- opening */

static int read_ask(lease *l, span payload, err *e)
{
    hosted_rank *r = &l->base;
    int rc = lease_ask_read(&l->ask, payload, peer_protocol(r->control), &l->refused);
    if (rc && rc != ERR_USAGE) return err_copy(e, &l->refused);
    char *devices = mem_strn((const char *)l->ask.devices.p, l->ask.devices.n);
    l->weights = mem_strn((const char *)l->ask.weights.p, l->ask.weights.n);
    l->spec = mem_strn((const char *)l->ask.model_spec.p, l->ask.model_spec.n);
    buf_add(&l->flat, l->ask.flat.p, l->ask.flat.n);
    r->rank = l->ask.rank;
    r->ranks = l->ask.ranks;
    r->token = l->ask.token;
    r->others = (rank_links_others){.rank = r->rank, .ranks = r->ranks};
    for (int i = 0; i < r->ranks; i++) {
        r->others.is[i] = l->ask.meets[i];
        if (l->ask.node[i].n) memcpy(r->others.node[i], l->ask.node[i].p, l->ask.node[i].n);
        l->ask.node[i] = (span){0};
    }
    l->ask.devices = l->ask.weights = l->ask.model_spec = (span){0};
    l->ask.flat = (span){0};
    if (devices) device_list_parse(&l->devices, devices, r->host->backends, &l->refused);
    mem_free(devices);
    return !l->flat.bad && l->weights && l->spec && devices ? OK : err_memory(e, "a lease");
}

int lease_open(hosted_rank **out, const rank_host *host, peer *control, span payload, err *e)
{
    lease *l = mem_zero(1, sizeof *l);
    *out = NULL;
    if (!l) return err_memory(e, "a lease");
    hosted_open(&l->base, &lease_kind, host, control);
    int rc = read_ask(l, payload, e);
    if (!rc) rc = fetch_open(&l->fetches, control, e);
    if (!rc && peer_protocol(control) >= PROTOCOL_SHARED) rc = hosted_begin_links(&l->base, e);
    if (rc) hosted_close(&l->base);
    else *out = &l->base;
    return rc;
}
