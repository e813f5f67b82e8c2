/* lease.c - see lease.h.
 *
 * One thread carries out what takes long (the model, pages, connections to other ranks), one collects steps and says
 * that they are done. Steps go to the plan from the thread that reads them, which never waits: the leader sends one
 * only when there is a place for it. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/lease_state.h"
#include "net/msg.h"
#include "net/question.h"
#include "plan/drive.h"
#include "plan/far.h"
#include "plan/plan_part.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { JOIN_SECONDS = 10 };

/* ---- the end */

void lease_end(lease *l, const err *why)
{
    pthread_mutex_lock(&l->lock);
    const bool first = !l->over;
    if (first) l->why = *why;
    l->over = true;
    rank_links *w = l->w;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (first) fetch_end(l->fetches, why);
    if (first && w) rank_links_fail(w, why);
}

static void links_lost(void *ctx, const err *why) { lease_end(ctx, why); }

bool lease_is_over(const lease *l)
{
    pthread_mutex_lock((pthread_mutex_t *)&l->lock);
    const bool over = l->over;
    pthread_mutex_unlock((pthread_mutex_t *)&l->lock);
    return over;
}

void lease_progress(lease *l, progress *out)
{
    struct timespec t = {0};
    *out = (progress){.waits = PROGRESS_WAITS_NOT};
    pthread_mutex_lock(&l->lock);
    const bool carries = l->carries || l->pending_kind, ready = l->ready;
    out->busy = carries || l->sent > l->done;
    out->work = l->done;
    if (l->carries) clock_gettime(l->worker_time, &t);
    pthread_mutex_unlock(&l->lock);
    if (carries) out->work += (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
    if (carries && l->fetches) out->work += peer_bulk_taken(l->control);
    if (!ready || carries) return;
    const plan_progress steps = plan_progress_now(l->l);
    out->work += steps.work;
    out->alive = steps.alive;
    out->waits = steps.waits;
}

bool lease_measures(const lease *l) { return l->trial != NULL; }

bool lease_works(lease *l)
{
    pthread_mutex_lock(&l->lock);
    const bool works = !l->over && (l->carries || l->pending_kind || l->sent > l->done);
    pthread_mutex_unlock(&l->lock);
    return works;
}

uint64_t lease_steps(lease *l)
{
    pthread_mutex_lock(&l->lock);
    const uint64_t n = l->over ? 0 : l->sent - l->done;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* NULL: none yet. */
static rank_links *links_of(lease *l)
{
    pthread_mutex_lock(&l->lock);
    rank_links *w = l->w;
    pthread_mutex_unlock(&l->lock);
    return w;
}

void lease_count(lease *l, peer_bytes *to)
{
    const rank_links *w = links_of(l);
    if (w) rank_links_count_dialled(w, to);
}

/* ---- what takes long */

/* Connections to the ranks that this one meets; those of the leader share its own, where it knows how. */
static int begin_links(lease *l, err *e)
{
    const rank_links_use use = {l, links_lost};
    const rank_links_others *o = &l->others;
    const bool shares = !l->trial && peer_protocol(l->control) >= PROTOCOL_SHARED;
    rank_links *w = NULL;
    int rc = rank_links_begin(&w, o, &use, e);
    for (int b = 0; b < o->ranks && shares && !rc; b++)
        if (o->is[b] && !o->node[b][0]) rc = rank_links_share(w, o->rank, b, b, l->control, e);
    pthread_mutex_lock(&l->lock);
    l->w = w;
    const bool over = l->over;
    pthread_mutex_unlock(&l->lock);
    if (over && w) rank_links_fail(w, &l->why);
    return rc;
}

/* From now on this rank dials the others, and those may join. */
static int meet(lease *l, err *e)
{
    const meet_ask asked = {l->w, &l->others, l->ask.token, l->host->self, peer_name(l->control)};
    int rc = meet_begin(&l->meets, &asked, e);
    if (!rc) l->host->met(l->host->ctx);
    return rc;
}

/* Their mailboxes. Who leads by an older protocol, or a trial, has not said whom this rank meets. */
static int make_links(lease *l, const rank_links_shape *these, const char *mine, err *e)
{
    bool here[LINK_RANKS_MAX] = {false};
    const bool early = l->w;
    int rc = OK;
    here[l->ask.rank] = true;
    if (!early) {
        rank_links_others_of(&l->others, these, l->ask.rank, mine);
        rc = begin_links(l, e);
    }
    if (!rc) rc = rank_links_fill(l->w, these, here, e);
    return rc || early ? rc : meet(l, e);
}

/* What this lease takes without pages, or with them after plan_ready. */
static uint64_t taken_bytes(const lease *l)
{
    return l->fetched + plan_taken_bytes(l->l) + l->step_bytes * (uint64_t)(l->ask.choices.in_flight + 1);
}

static int open_plan(lease *l, err *e)
{
    plan_options o = {.devices = &l->devices,
                      .backends = l->host->backends,
                      .choices = l->ask.choices,
                      .rank = l->ask.rank + 1,
                      .as = l->host->as,
                      .lends = l->host->devices};
    for (int i = 0; i < AXIS_COUNT; i++) o.max_rows[i] = l->ask.max_rows[i];
    int rc = err_copy(e, &l->refused);
    if (!rc) rc = lease_read_list(l, e);
    if (!rc) rc = lease_place_model(l, &o, e);
    if (!rc && plan_segments(l->l) != l->ask.ranks) rc = err_set(e, ERR_FORMAT, "another number of ranks");
    const rank_links_shape these = rc ? (rank_links_shape){0} : rank_links_of_plan(l->l);
    if (!rc) rc = make_links(l, &these, plan_own_node(l->l), e);
    if (!rc) rc = quota_take(l->host->memory, &l->quota, taken_bytes(l), e);
    l->opened = !rc;
    return rc;
}

static int open_trial(lease *l, err *e)
{
    const rank_links_shape these = trial_shape(l->trial);
    const uint64_t left = quota_left(l->host->memory);
    int rc = l->trial->bytes > left ? quota_refuse(l->host->memory, left, l->trial->bytes, e) : OK;
    if (!rc) rc = make_links(l, &these, device_at(&l->trial->devices, l->ask.rank)->node, e);
    l->side.w = l->w;
    l->side.rank = l->ask.rank;
    l->opened = !rc;
    return rc;
}

/* As plan_memory, within what the node lends. */
static int look_at_memory(const lease *l, dtype k_type, dtype v_type, lease_memory *m, err *e)
{
    if (!plan_memory(l->l, 0, k_type, v_type, m->page, &m->slot, &m->left))
        return err_set(e, ERR_FORMAT, "no rank is here");
    const uint64_t left = quota_left(l->host->memory), more = taken_bytes(l) - l->quota; /* for steps */
    if (left < m->left + more) m->left = left > more ? left - more : 0;
    return OK;
}

/* Whether so many pages and slots fit. */
static int check_pages(const lease *l, const cache_options *cache, err *e)
{
    lease_memory m = {.left = 0};
    uint64_t needs = 0;
    int rc = look_at_memory(l, cache->k_type, cache->v_type, &m, e);
    if (rc) return rc;
    for (int g = 0; g < GROUP_MAX; g++) needs += (uint64_t)cache->n_page[g] * m.page[g];
    needs += (uint64_t)cache->n_slot * m.slot;
    const uint64_t has = taken_bytes(l);
    return needs <= m.left ? OK : quota_refuse(l->host->memory, has + m.left, has + needs, e);
}

static int tell_memory(const lease *l, dtype k_type, dtype v_type, buf *out, err *e)
{
    lease_memory m = {.left = 0};
    int rc = look_at_memory(l, k_type, v_type, &m, e);
    if (!rc) m.left /= (uint64_t)plan_sharers(l->l);
    if (!rc && !lease_memory_write(out, &m)) rc = err_set(e, ERR_MEMORY, "out of memory");
    return rc;
}

static int answer_memory(const lease *l, span payload, buf *out, err *e)
{
    dtype k_type, v_type;
    int rc = lease_types_read(&k_type, &v_type, payload, e);
    if (!rc && !l->opened) rc = err_set(e, ERR_FORMAT, "a question about memory before the lease");
    return rc ? rc : tell_memory(l, k_type, v_type, out, e);
}

static int answer_lease(lease *l, buf *out, err *e)
{
    const int protocol = peer_protocol(l->control);
    int rc = open_plan(l, e);
    if (!rc && protocol >= PROTOCOL_LISTS) lease_hashed_write(out, l->hashed_at);
    return rc || protocol < PROTOCOL_SHARED ? rc : tell_memory(l, l->ask.k_type, l->ask.v_type, out, e);
}

void lease_look(lease *l)
{
    err why = {0};
    pthread_mutex_lock(&l->lock);
    const bool ready = l->ready;
    pthread_mutex_unlock(&l->lock);
    if (ready && l->parts && store_look(l->parts, &why)) lease_end(l, &why);
}

void lease_lose_file(lease *l, const file_id *id, const err *why)
{
    pthread_mutex_lock(&l->lock);
    const bool ready = l->ready;
    pthread_mutex_unlock(&l->lock);
    if (!l->trial && (!ready || lease_reads_file(l, id))) lease_end(l, why);
}

static void *collect_steps(void *arg)
{
    lease *l = arg;
    double busy = 0;
    for (uint64_t number = 0;; number++) {
        err e = {0};
        buf more = {0};
        pthread_mutex_lock(&l->lock);
        while (l->sent <= number && !l->over) pthread_cond_wait(&l->changed, &l->lock);
        const bool none = l->sent <= number;
        pthread_mutex_unlock(&l->lock);
        if (none) return NULL;
        int rc = plan_collect(l->l, &e);
        if (!rc) rc = lease_check_weights(l, &e);
        pthread_mutex_lock(&l->lock);
        l->done = number + 1;
        pthread_mutex_unlock(&l->lock);
        const double before = busy;
        busy = plan_busy(l->l, l->ask.rank);
        lease_seconds_write(&more, busy - before);
        tally_step(l->host->done, busy - before);
        lease_faults_write(&more, plan_faults(l->l), (int32_t)plan_sequences(l->l));
        const err torn = e;
        if (answer_send(l->control, MSG_DONE, number, &torn, buf_span(&more), &e)) lease_end(l, &e);
        if (torn.code == ERR_UNAVAILABLE) lease_end(l, &torn);
        buf_free(&more);
    }
}

static int get_ready(lease *l, span payload, err *e)
{
    cache_options cache;
    step_limits limits;
    link_end *ends[LINK_RANKS_MAX][PLAN_LANES] = {{NULL}};
    int rc = lease_cache_read(&cache, payload, e);
    if (!rc && (!l->opened || l->reader)) rc = err_set(e, ERR_FORMAT, "a request for pages out of turn");
    if (rc) return rc;
    rc = step_limits_of(&limits, l->m->prog, plan_asked(l->l)->max_rows, l->ask.sequences, l->m->ctx, &cache, e);
    if (!rc) rc = step_reader_open(&l->reader, l->m->prog, &limits, (int)l->ask.choices.in_flight, e);
    l->step_bytes = rc ? 0 : step_code_max(&limits);
    if (!rc && !(l->step_room = mem_alloc(l->step_bytes))) rc = err_set(e, ERR_MEMORY, "out of memory for steps");
    for (int k = 0; k < plan_lanes(l->l); k++) ends[l->ask.rank][k] = rank_links_end(l->w, l->ask.rank, k);
    if (!rc) rc = check_pages(l, &cache, e);
    if (!rc) rc = plan_ready(l->l, &cache, ends, e);
    if (!rc) rc = quota_take(l->host->memory, &l->quota, taken_bytes(l), e);
    if (!rc) rc = meet_await(l->meets, JOIN_SECONDS, e);
    if (!rc) {
        l->collects = pthread_create(&l->collector, NULL, collect_steps, l) == 0;
        if (!l->collects) rc = err_set(e, ERR_MEMORY, "a thread could not be started");
    }
    pthread_mutex_lock(&l->lock);
    l->ready = !rc;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static void say_ready(lease *l)
{
    plan_part *parts;
    const int n = plan_segments(l->l), rank = l->ask.rank;
    int layers = 0;
    for (int i = 0; i < n; i++)
        if (!i || plan_group_of(l->l, i) != plan_group_of(l->l, i - 1)) layers += plan_layers_of(l->l, i);
    l->ready_at = clock_now();
    if (plan_parts(l->l, &parts, NULL)) return;
    log_line(LOG_INFO, "lease of %s: rank %d of %d is ready: %.80s, %d of %d layers, %.1f MiB of weights",
             peer_name(l->control), rank, n, l->m->arch, plan_layers_of(l->l, rank), layers,
             (double)parts[rank].weight_bytes / 0x1p20);
    mem_free(parts);
}

void lease_say_end(const lease *l, const char *why)
{
    if (!l->ready_at) return;
    log_line(LOG_INFO, "lease of %s: rank %d of %d has ended after %.1f s and %" PRIu64 " steps: %s",
             peer_name(l->control), l->ask.rank, l->ask.ranks, clock_now() - l->ready_at, l->done,
             why ? why : l->why.msg);
}

/* One collective of a trial. */
static int test(lease *l, span payload, buf *out, err *e)
{
    coll_test t;
    coll_score s;
    int rc = trial_test_read(&t, payload, e);
    if (!rc && !l->opened) rc = err_set(e, ERR_FORMAT, "a test after one that failed");
    if (!rc && !l->joined) rc = meet_await(l->meets, JOIN_SECONDS, e);
    l->joined = !rc;
    if (!rc) rc = quota_take(l->host->memory, &l->quota, trial_side_bytes(&l->side, &t), e);
    if (!rc) rc = trial_side_run(&l->side, &t, &s, e);
    quota_return(l->host->memory, &l->quota);
    if (!rc && !trial_score_write(out, &s)) rc = err_set(e, ERR_MEMORY, "out of memory");
    l->opened = !rc;
    atomic_fetch_add(&l->host->done->trials, !rc);
    return rc;
}

static void carry_out(lease *l, uint16_t kind, span payload)
{
    err e = {0};
    buf more = {0};
    pthread_mutex_lock(&l->lock);
    l->carries = true;
    pthread_mutex_unlock(&l->lock);
    int rc = kind == MSG_LEASE    ? answer_lease(l, &more, &e)
             : kind == MSG_TRIAL  ? open_trial(l, &e)
             : kind == MSG_TEST   ? test(l, payload, &more, &e)
             : kind == MSG_MEMORY ? answer_memory(l, payload, &more, &e)
                                  : get_ready(l, payload, &e);
    if (rc && rc != ERR_CANCELLED) atomic_fetch_add(&l->host->done->refused, kind == MSG_LEASE || kind == MSG_READY);
    if (rc) log_line(LOG_WARN, "%s: %s", peer_name(l->control), e.msg);
    else if (kind == MSG_READY) say_ready(l);
    const err why = e;
    if (answer_send(l->control, MSG_ANSWER, 0, &why, buf_span(&more), &e)) lease_end(l, &e);
    pthread_mutex_lock(&l->lock);
    l->carries = false;
    pthread_mutex_unlock(&l->lock);
    buf_free(&more);
}

static void *work(void *arg)
{
    lease *l = arg;
    buf own = {0};
    pthread_getcpuclockid(pthread_self(), &l->worker_time);
    carry_out(l, l->trial ? MSG_TRIAL : MSG_LEASE, (span){0});
    pthread_mutex_lock(&l->lock);
    while (!l->over) {
        const uint16_t kind = l->pending_kind;
        if (!kind) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        own = l->pending;
        l->pending = (buf){0};
        l->pending_kind = 0;
        pthread_mutex_unlock(&l->lock);
        carry_out(l, kind, buf_span(&own));
        buf_free(&own);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- messages of the leader */

int lease_admit(lease *l, const frame_head *h, uint8_t **room, err *e)
{
    const bool is_step = h->kind == MSG_STEP;
    if (h->kind == MSG_PIECE || h->kind == MSG_LIST) return fetch_admit(l->fetches, h, room, e);
    if (rank_links_know(h->kind)) return rank_links_shared_admit(links_of(l), l->control, h, room, e);
    if (l->trial ? h->kind != MSG_TEST : !is_step && h->kind != MSG_MEMORY && h->kind != MSG_READY)
        return err_set(e, ERR_FORMAT, "a message of kind %u on the connection of a lease", h->kind);
    pthread_mutex_lock(&l->lock);
    const bool ready = l->ready;
    pthread_mutex_unlock(&l->lock);
    if (is_step && (!ready || h->bytes > l->step_bytes))
        return err_set(e, ERR_FORMAT, "a step of %u bytes: at most %" PRIu64, h->bytes, ready ? l->step_bytes : 0);
    if (is_step && h->bytes > FRAME_SMALL) *room = l->step_room;
    return OK;
}

static int take_step(lease *l, const frame_head *h, const uint8_t *payload, err *e)
{
    const step *st;
    pthread_mutex_lock(&l->lock);
    const bool in_turn = h->channel == l->sent && l->sent < l->done + (uint64_t)l->ask.choices.in_flight;
    pthread_mutex_unlock(&l->lock);
    if (!in_turn) return err_set(e, ERR_FORMAT, "step %" PRIu64 " out of turn", h->channel);
    int rc = step_read(l->reader, span_of(payload, h->bytes), &st, e);
    if (rc) return rc;
    pthread_mutex_lock(&l->lock);
    const bool over = l->over; /* then nobody would collect it */
    if (!over) l->sent++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (!over) plan_send(l->l, st);
    return OK;
}

int lease_take(lease *l, const frame_head *h, const uint8_t *payload, err *e)
{
    if (h->kind == MSG_PIECE || h->kind == MSG_LIST) return fetch_take(l->fetches, h, payload, e);
    if (h->kind == MSG_STEP) return take_step(l, h, payload, e);
    if (rank_links_know(h->kind)) return rank_links_shared_take(links_of(l), l->control, h, payload, e);
    int rc = OK;
    pthread_mutex_lock(&l->lock);
    if (l->pending_kind) rc = err_set(e, ERR_FORMAT, "a message of kind %u out of turn", h->kind);
    else if (!buf_add(&l->pending, payload, h->bytes)) rc = err_set(e, ERR_MEMORY, "out of memory for a message");
    if (!rc) l->pending_kind = h->kind;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

/* ---- other ranks */

/* In the same time wherever they differ. */
static bool same_token(const uint8_t *a, const uint8_t *b)
{
    uint8_t all = 0;
    for (int i = 0; i < LEASE_TOKEN; i++) all |= a[i] ^ b[i];
    return all == 0;
}

bool lease_knows(const lease *l, const lease_join *j)
{
    return j->from < l->ask.ranks && j->from != l->ask.rank && same_token(j->token, l->ask.token[j->from]);
}

int lease_join_way(lease *l, const lease_join *j, peer *p, err *e)
{
    rank_links *w = links_of(l);
    return w ? rank_links_accept(w, l->ask.rank, j->from, p, e) : err_set(e, ERR_UNAVAILABLE, "a rank joins too early");
}

int lease_way_admit(lease *l, int from, const frame_head *h, uint8_t **room, err *e)
{
    return rank_links_admit(l->w, l->ask.rank, from, h, room, e);
}

int lease_way_take(lease *l, int from, const frame_head *h, const uint8_t *payload, err *e)
{
    return rank_links_take(l->w, l->ask.rank, from, h, payload, e);
}

/* ---- opening */

static char *text_of(span t)
{
    char *s = mem_alloc(t.n + 1);
    if (s) memcpy(s, t.p, t.n), s[t.n] = 0;
    return s;
}

/* What a LEASE asks for. */
static int read_ask(lease *l, span payload, err *e)
{
    int rc = lease_ask_read(&l->ask, payload, peer_protocol(l->control), &l->refused);
    if (rc && rc != ERR_USAGE) return err_copy(e, &l->refused);
    char *devices = text_of(l->ask.devices);
    l->weights = text_of(l->ask.weights);
    l->text = text_of(l->ask.model_spec);
    buf_add(&l->listed, l->ask.flat.p, l->ask.flat.n);
    l->others = (rank_links_others){.rank = l->ask.rank, .ranks = l->ask.ranks};
    for (int r = 0; r < l->ask.ranks; r++) {
        l->others.is[r] = l->ask.meets[r];
        if (l->ask.node[r].n) memcpy(l->others.node[r], l->ask.node[r].p, l->ask.node[r].n);
        l->ask.node[r] = (span){0};
    }
    l->ask.devices = l->ask.weights = l->ask.model_spec = (span){0};
    l->ask.flat = (span){0};
    if (devices) device_list_parse(&l->devices, devices, l->host->backends, &l->refused);
    mem_free(devices);
    return !l->listed.bad && l->weights && l->text && devices ? OK
                                                              : err_set(e, ERR_MEMORY, "out of memory for a lease");
}

/* What a TRIAL asks for. */
static int read_trial(lease *l, span payload, err *e)
{
    trial_ask a;
    l->trial = mem_zero(1, sizeof *l->trial);
    int rc = l->trial ? trial_ask_read(&a, payload, e) : err_set(e, ERR_MEMORY, "out of memory for a trial");
    if (rc) return rc;
    char *devices = text_of(a.devices);
    l->trial->bytes = a.bytes;
    l->ask.rank = a.rank;
    l->ask.ranks = a.ranks;
    memcpy(l->ask.token, a.token, sizeof a.token);
    device_list *all = &l->trial->devices;
    rc = devices ? device_list_parse(all, devices, l->host->backends, e)
                 : err_set(e, ERR_MEMORY, "out of memory for a trial");
    mem_free(devices);
    if (rc) return rc;
    if (all->n != a.ranks) return err_set(e, ERR_FORMAT, "%d devices for %d ranks", all->n, a.ranks);
    device_entry *own = device_at(all, a.rank);
    int missing = devices_find_lent(l->host->devices, l->host->backends, own, e);
    if (missing) return missing;
    l->side.wire = backend_wire(own->be);
    return OK;
}

int lease_open(lease **out, const lease_host *host, peer *control, uint16_t kind, span payload, err *e)
{
    lease *l = *out = mem_zero(1, sizeof *l);
    if (!l) return err_set(e, ERR_MEMORY, "out of memory for a lease");
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->host = host;
    l->control = control;
    int rc = kind == MSG_TRIAL ? read_trial(l, payload, e) : read_ask(l, payload, e);
    if (!rc) rc = fetch_open(&l->fetches, control, e);
    if (!rc && !l->trial && peer_protocol(control) >= PROTOCOL_SHARED) rc = begin_links(l, e);
    if (!rc) return OK;
    l->over = true;
    lease_close(l);
    *out = NULL;
    return rc;
}

int lease_begin(lease *l, err *e)
{
    int rc = l->w ? meet(l, e) : OK;
    if (rc) return rc;
    pthread_mutex_lock(&l->lock);
    if (!l->over) l->works = pthread_create(&l->worker, NULL, work, l) == 0;
    const bool begun = l->works || l->over;
    pthread_mutex_unlock(&l->lock);
    return begun ? OK : err_set(e, ERR_MEMORY, "a thread could not be started");
}

void lease_stop(lease *l)
{
    if (l->works || l->collects) peer_drop(l->control, &l->why); /* they may wait for it */
    if (l->works) pthread_join(l->worker, NULL);
    if (l->collects) pthread_join(l->collector, NULL);
    l->works = l->collects = false;
    meet_close(l->meets);
    l->meets = NULL;
    if (l->w) rank_links_stop(l->w);
}

void lease_close(lease *l)
{
    if (!l) return;
    lease_stop(l);
    rank_links_close(l->w);
    trial_side_close(&l->side);
    if (l->trial) device_list_close(&l->trial->devices);
    mem_free(l->trial);
    plan_close(l->l);
    step_reader_close(l->reader);
    store_close(l->parts);
    model_close(l->m);
    fetch_close(l->fetches);
    quota_return(l->host->memory, &l->quota);
    mem_free(l->step_room);
    buf_free(&l->pending);
    device_list_close(&l->devices);
    mem_free(l->weights);
    mem_free(l->text);
    catalogue_free(&l->told);
    buf_free(&l->listed);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    mem_free(l);
}
