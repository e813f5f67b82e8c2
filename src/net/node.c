/* node.c - see node.h. Whoever comes in is a visitor: the first message says whether as a leader, who asks for a lease,
 * or as another rank of a plan of which a rank is here. */
#include "net/node.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/door.h"
#include "net/lease.h"
#include "net/msg.h"
#include "net/on_measure.h"
#include "net/question.h"
#include "net/store.h"
#include "plan/devices.h"

#include <sys/stat.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { VISITORS_MAX = 1024 };
#define LOOK_EVERY 0.25
static const double ASK_SECONDS = 5; /* after which a visitor has said what it wants */

typedef struct visitor {
    struct visitor *next;
    node *of;
    peer *p;
    lease *_Atomic l; /* NULL: nothing was said yet, or it waits to join */
    measuring *measures;
    int from; /* rank there; -1: the leader */
    lease_join join;
    bool joins;           /* it said JOIN */
    bool waits;           /* and the lease is not there, or has no links yet; under the lock */
    atomic_bool asks;     /* something has begun to come that is more than a sign of life */
    double until;         /* when it has to have asked, or its lease to be known */
    bool gone, closes;    /* its connections were lost; are being closed */
    err lost;             /* gone: why */
    progress_watch watch; /* of a lease with something to do */
    double rest;          /* seconds for which that has not moved */
    uint8_t *room;
} visitor;

struct node {
    node_options o;
    peer_self self;
    lease_host host;
    memory_quota memory;
    tally done;
    peer_bytes before; /* by connections that were closed */
    double looked;     /* clock_now of the last look_at_leases */
    keeper *copies;
    lists told;
    address at;
    door *d;
    pthread_mutex_t lock;
    visitor *visitors;
    int n_visitor;
    int n_closing; /* threads that close visitors */
    pthread_cond_t closed;
    bool drains;
};

/* ---- messages */

static int visitor_admit(void *ctx, peer *p, const frame_head *h, uint8_t **room, err *e)
{
    visitor *g = ctx;
    (void)p;
    if (g->l) return g->from < 0 ? lease_admit(g->l, h, room, e) : lease_way_admit(g->l, g->from, h, room, e);
    if (g->joins) return err_set(e, ERR_FORMAT, "a message of kind %u before it has joined", h->kind);
    atomic_store(&g->asks, h->kind != MSG_JOIN);
    if (h->kind == MSG_JOIN || (h->kind == MSG_MEASURE && !g->measures)) return OK;
    if (h->kind != MSG_LEASE && h->kind != MSG_TRIAL)
        return err_set(e, ERR_FORMAT, "a message of kind %u comes first", h->kind);
    if (h->bytes <= FRAME_SMALL) return OK;
    *room = g->room = mem_alloc(h->bytes);
    return g->room ? OK : err_set(e, ERR_MEMORY, "out of memory for a lease");
}

static int begin_lease(visitor *g, uint16_t kind, span payload, err *e)
{
    node *n = g->of;
    lease *l;
    pthread_mutex_lock(&n->lock);
    const bool drains = n->drains;
    pthread_mutex_unlock(&n->lock);
    if (drains) return err_set(e, ERR_BUSY, "this node is about to end");
    int rc = lease_open(&l, &n->host, g->p, kind, payload, e);
    pthread_mutex_lock(&n->lock);
    const bool late = !rc && g->closes;
    if (!rc && !late) g->l = l;
    pthread_mutex_unlock(&n->lock);
    if (!late) return rc ? rc : lease_begin(l, e);
    lease_close(l);
    return err_set(e, ERR_CANCELLED, "it is gone");
}

/* ---- ranks that join */

/* To the lease that the token is of. ERR_UNAVAILABLE: it waits, as its leader may be slower than the other rank, or the
 * model there not open; ERR_BUSY: the ranks have another connection. Under the lock. */
static int join(visitor *g, err *e)
{
    lease *l = NULL;
    for (visitor *of = g->of->visitors; of && !l; of = of->next)
        if (of->l && of->from < 0 && !of->gone && lease_knows(of->l, &g->join)) l = of->l;
    if (l) g->until = INFINITY;
    int rc = l ? lease_join_way(l, &g->join, g->p, e)
               : err_set(e, ERR_UNAVAILABLE, "it joins with a token of no lease");
    g->waits = rc == ERR_UNAVAILABLE;
    if (rc) return rc;
    g->from = g->join.from;
    g->l = l;
    return OK;
}

static int begin_way(visitor *g, span payload, err *e)
{
    node *n = g->of;
    err why = {0};
    g->joins = true;
    int rc = lease_join_read(&g->join, payload, e);
    if (rc) return rc;
    pthread_mutex_lock(&n->lock);
    rc = g->closes ? err_set(&why, ERR_CANCELLED, "it is gone") : join(g, &why);
    pthread_mutex_unlock(&n->lock);
    if (rc == ERR_UNAVAILABLE) return OK;
    if (rc && rc != ERR_BUSY) return err_copy(e, &why);
    return answer_send(g->p, MSG_ANSWER, 0, &why, (span){0}, e);
}

/* One that waits no longer, and what it is answered; held. NULL: there is none. */
static peer *join_next(node *n, err *why)
{
    peer *p = NULL;
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g && !p; g = g->next) {
        *why = (err){0};
        if (!g->waits || g->gone || join(g, why) == ERR_UNAVAILABLE) continue;
        p = g->p;
        peer_hold(p);
    }
    pthread_mutex_unlock(&n->lock);
    return p;
}

static void join_all(void *ctx)
{
    err why;
    for (peer *p; (p = join_next(ctx, &why)); peer_let_go(p)) answer_send(p, MSG_ANSWER, 0, &why, (span){0}, NULL);
}

/* One that has said nothing, or joins what nobody knows, for too long; held. */
static peer *find_idle(node *n, err *why)
{
    peer *p = NULL;
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g && !p; g = g->next) {
        if (g->l || g->gone || g->asks || clock_now() < g->until) continue;
        if (clock_now() < peer_measured_at(g->p) + ASK_SECONDS) continue;
        *why = (err){0};
        err_set(why, ERR_FORMAT, g->waits ? "it joins with a token of no lease" : "it says nothing");
        p = g->p;
        peer_hold(p);
    }
    pthread_mutex_unlock(&n->lock);
    return p;
}

static void drop_idle(node *n)
{
    err why;
    for (peer *p; (p = find_idle(n, &why)); peer_let_go(p)) peer_drop(p, &why);
}

/* Who asked for a lease can go elsewhere, and ends the connection. */
static int tell_refusal(visitor *g, err *e)
{
    const err why = *e;
    *e = (err){0};
    pthread_mutex_lock(&g->of->lock);
    g->until = clock_now() + ASK_SECONDS;
    pthread_mutex_unlock(&g->of->lock);
    atomic_store(&g->asks, false);
    return answer_send(g->p, MSG_ANSWER, 0, &why, (span){0}, e);
}

static int visitor_take(void *ctx, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    visitor *g = ctx;
    (void)p;
    if (g->l) return g->from < 0 ? lease_take(g->l, h, payload, e) : lease_way_take(g->l, g->from, h, payload, e);
    const span said = span_of(payload, h->bytes);
    int rc = h->kind == MSG_JOIN      ? begin_way(g, said, e)
             : h->kind == MSG_MEASURE ? measuring_open(&g->measures, &g->of->self, g->p, said, e)
                                      : begin_lease(g, h->kind, said, e);
    mem_free(g->room);
    g->room = NULL;
    if (rc) log_line(LOG_WARN, "refused %s: %s", peer_name(g->p), e->msg);
    if (h->kind == MSG_LEASE) {
        atomic_fetch_add(&g->of->done.leases, 1);
        atomic_fetch_add(&g->of->done.refused, rc != OK);
    }
    return rc == ERR_BUSY ? tell_refusal(g, e) : rc;
}

static void visitor_lost(void *ctx, peer *p, const err *why)
{
    visitor *g = ctx;
    const bool left = peer_left(p);
    err say = {0};
    if (why->code == ERR_FORMAT) log_line(LOG_WARN, "%s: %s", peer_name(p), why->msg);
    if (g->from < 0) err_set(&say, why->code, "the leader %s%s", left ? "has left" : "is lost: ", left ? "" : why->msg);
    else err_set(&say, why->code, "rank %d %s%s", g->from, left ? "has left" : "is lost: ", left ? "" : why->msg);
    pthread_mutex_lock(&g->of->lock);
    lease *l = g->l;
    g->gone = true;
    g->lost = say;
    pthread_mutex_unlock(&g->of->lock);
    if (l) lease_end(l, &say);
}

static void visitor_tell(void *ctx, progress *mine)
{
    visitor *g = ctx;
    if (g->l && g->from < 0) lease_progress(g->l, mine);
}

/* ---- the door */

static bool node_has_room(void *ctx)
{
    node *n = ctx;
    pthread_mutex_lock(&n->lock);
    const bool room = n->n_visitor < VISITORS_MAX;
    pthread_mutex_unlock(&n->lock);
    return room;
}

static void node_enter(void *ctx, peer *p)
{
    node *n = ctx;
    visitor *g = mem_zero(1, sizeof *g);
    const peer_use use = {
        .ctx = g, .admit = visitor_admit, .take = visitor_take, .lost = visitor_lost, .tell = visitor_tell};
    err e = {0};
    if (!g) {
        peer_close(p);
        return;
    }
    *g = (visitor){.of = n, .p = p, .from = -1, .until = clock_now() + ASK_SECONDS};
    pthread_mutex_lock(&n->lock);
    g->next = n->visitors;
    n->visitors = g;
    n->n_visitor++;
    pthread_mutex_unlock(&n->lock);
    if (peer_start(p, &use, &e)) {
        log_line(LOG_ERROR, "%s", e.msg);
        visitor_lost(g, p, &e);
    }
}

/* ---- visitors that are gone */

/* Those of the connections that its leases dialled come with the leader's. Under the lock. */
static void count_bytes(const visitor *g, peer_bytes *to)
{
    peer_count(g->p, to);
    if (g->l && g->from < 0) lease_count(g->l, to);
}

/* Takes those of one lease that is over out of the list, or one who has none and is gone: its links first, its leader
 * last, linked by `next`. NULL: there is nobody. */
static visitor *take_gone(node *n, bool all)
{
    visitor *gone = NULL, *out = NULL, **end = &out;
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g && !gone; g = g->next)
        if (all || g->gone || (g->l && lease_is_over(g->l))) gone = g;
    const lease *l = gone ? gone->l : NULL;
    for (int leads = 0; leads < 2 && gone; leads++)
        for (visitor **at = &n->visitors; *at;) {
            visitor *g = *at;
            if (l ? g->l != l || (g->from < 0) != leads : g != gone) {
                at = &g->next;
                continue;
            }
            *at = g->next;
            g->next = NULL;
            g->closes = true;
            *end = g;
            end = &g->next;
            n->n_visitor--;
            count_bytes(g, &n->before);
        }
    pthread_mutex_unlock(&n->lock);
    return out;
}

static void close_visitors(visitor *all)
{
    const err ended = {.code = ERR_CANCELLED, .msg = "the lease has ended"};
    for (visitor *g = all, *next; g; g = next) {
        next = g->next;
        const bool leads = g->l && g->from < 0;
        pthread_mutex_lock(&g->of->lock);
        const err lost = g->lost; /* before this ends the connection */
        pthread_mutex_unlock(&g->of->lock);
        if (g->l) lease_end(g->l, &ended);
        if (g->l) lease_stop(g->l);
        measuring_close(g->measures);
        if (leads) lease_say_end(g->l, lost.code ? lost.msg : NULL);
        peer_close(g->p);
        if (leads) lease_close(g->l);
        mem_free(g->room);
        mem_free(g);
        if (leads) mem_trim();
    }
}

static void *close_main(void *arg)
{
    visitor *all = arg;
    node *n = all->of;
    close_visitors(all);
    pthread_mutex_lock(&n->lock);
    n->n_closing--;
    pthread_cond_broadcast(&n->closed);
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* On a thread of their own: what a lease does may take long to end. */
static void close_beside(node *n, visitor *all)
{
    pthread_t thread;
    pthread_attr_t alone;
    pthread_attr_init(&alone);
    pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&n->lock);
    n->n_closing++;
    pthread_mutex_unlock(&n->lock);
    if (pthread_create(&thread, &alone, close_main, all)) close_main(all);
    pthread_attr_destroy(&alone);
}

/* Whether leases with something to do get on with it; those that wait for rows of others do what they can. */
static void look_at_leases(node *n)
{
    pthread_mutex_lock(&n->lock);
    const bool due = clock_now() - n->looked >= LOOK_EVERY;
    if (due) n->looked = clock_now();
    for (visitor *g = n->visitors; g && due; g = g->next) {
        progress p = {.busy = false};
        if (g->l && g->from < 0 && !lease_measures(g->l)) lease_progress(g->l, &p);
        if (!p.busy || p.waits >= 0) progress_begin(&g->watch);
        progress_hear(&g->watch, &p);
        g->rest = progress_rest(&g->watch);
    }
    pthread_mutex_unlock(&n->lock);
}

void node_tidy(node *n)
{
    look_at_leases(n);
    drop_idle(n);
    for (visitor *g; (g = take_gone(n, false));) close_beside(n, g);
}

int node_leases(node *n)
{
    int count = 0;
    pthread_mutex_lock(&n->lock);
    for (const visitor *g = n->visitors; g; g = g->next) count += g->l && g->from < 0;
    pthread_mutex_unlock(&n->lock);
    return count;
}

bool node_works(node *n)
{
    bool works = false;
    pthread_mutex_lock(&n->lock);
    for (const visitor *g = n->visitors; g && !works; g = g->next) works = g->l && g->from < 0 && lease_works(g->l);
    pthread_mutex_unlock(&n->lock);
    return works;
}

/* Bytes of the device that has most, within what the node lends. */
static uint64_t memory_left(node *n)
{
    uint64_t left = 0;
    const uint64_t lends = quota_left(&n->memory);
    for (const backend_use *b = n->o.backends; b->be; b++) {
        device_info info;
        if (b->be->probe(0, &info) && !info.why && info.free_bytes > left) left = info.free_bytes;
    }
    return left < lends ? left : lends;
}

void node_look(node *n, node_report *out)
{
    pthread_mutex_lock(&n->lock);
    *out = (node_report){.connections = n->n_visitor, .bytes = n->before, .drains = n->drains};
    for (const visitor *g = n->visitors; g; g = g->next) {
        const bool leads = g->l && g->from < 0;
        count_bytes(g, &out->bytes);
        out->leases += leads && !lease_measures(g->l);
        out->stalled += leads && g->rest > PROGRESS_BUSY;
        if (leads) out->steps_under_way += lease_steps(g->l);
    }
    pthread_mutex_unlock(&n->lock);
    out->leases_so_far = atomic_load(&n->done.leases);
    out->leases_refused = atomic_load(&n->done.refused);
    out->steps = atomic_load(&n->done.steps);
    out->trials = atomic_load(&n->done.trials);
    out->compute_seconds = (double)atomic_load(&n->done.nanoseconds) * 1e-9;
    out->memory_lent = quota_taken(&n->memory);
    out->memory_left = memory_left(n);
    out->cache_bytes = n->o.cache ? store_folder_bytes(n->o.cache) : 0;
    out->refused = door_refused(n->d);
    out->copies_changed = keeper_changed(n->copies);
}

/* What can be sent without waiting: who does not hear it sees the node go. */
void node_drain(node *n)
{
    pthread_mutex_lock(&n->lock);
    n->drains = true;
    for (const visitor *g = n->visitors; g; g = g->next)
        if (g->l && g->from < 0 && !lease_measures(g->l) && peer_protocol(g->p) >= 2)
            peer_offer(g->p, PEER_CONTROL, &(frame_head){0, MSG_DRAINING, 0}, NULL);
    pthread_mutex_unlock(&n->lock);
}

/* ---- what it has of models */

static bool is_asked(void *ctx) { return node_works(ctx); }

static void file_decayed(void *ctx, const file_id *id, const err *why)
{
    node *n = ctx;
    pthread_mutex_lock(&n->lock);
    for (const visitor *g = n->visitors; g; g = g->next)
        if (g->l && g->from < 0) lease_lose_file(g->l, id, why);
    pthread_mutex_unlock(&n->lock);
}

static void files_looked_at(void *ctx)
{
    node *n = ctx;
    pthread_mutex_lock(&n->lock);
    for (const visitor *g = n->visitors; g; g = g->next)
        if (g->l && g->from < 0) lease_look(g->l);
    pthread_mutex_unlock(&n->lock);
}

/* ---- */

const address *node_address(const node *n) { return &n->at; }

const hello *node_says(const node *n) { return &n->self.me; }

/* Adds a device of a backend to what the node says of itself, if there is one. */
static void add_device(node *n, const backend *be, int number)
{
    hello *me = &n->self.me;
    device_info info;
    if (me->n_device == HELLO_DEVICES || !be->probe(0, &info) || info.why) return;
    hello_device *d = &me->device[me->n_device++];
    if (number < 0) snprintf(d->name, sizeof d->name, "%s", be->name);
    else snprintf(d->name, sizeof d->name, "%s:%d", be->name, number);
    snprintf(d->what, sizeof d->what, "%.60s", info.name);
    d->bytes = n->o.memory && n->o.memory < info.free_bytes ? n->o.memory : info.free_bytes;
}

static int list_devices(node *n, err *e)
{
    device_entry lent[DEVICES_MAX];
    const int count = n->o.devices ? devices_lent(n->o.devices, n->o.backends, lent, e) : 0;
    for (int i = 0; i < count; i++) add_device(n, lent[i].be, lent[i].number);
    for (int i = 0; !n->o.devices && n->o.backends[i].be; i++) add_device(n, n->o.backends[i].be, -1);
    return count < 0 ? count : OK;
}

int node_open(node **out, const node_options *o, err *e)
{
    node *n = *out = mem_zero(1, sizeof *n);
    if (!n) return err_set(e, ERR_MEMORY, "out of memory for a node");
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->closed, NULL);
    pthread_mutex_init(&n->memory.lock, NULL);
    n->o = *o;
    n->at = o->at;
    n->host = (lease_host){.backends = o->backends,
                           .devices = o->devices,
                           .models = o->models,
                           .n_model = o->n_model,
                           .cache = o->cache,
                           .cache_bytes = o->cache_bytes,
                           .self = &n->self,
                           .memory = &n->memory,
                           .met = join_all,
                           .ctx = n,
                           .told = &n->told,
                           .done = &n->done};
    lists_open(&n->told, o->cache);
    n->memory.most = o->memory;
    int rc = o->as ? pace_parse(&n->host.as, o->as, e) : OK;
    if (!rc) rc = peer_self_open(&n->self, o->key_file, e);
    if (!rc && o->cache && mkdir(o->cache, 0700) && errno != EEXIST) /* told now, not by the first lease */
        rc = err_set(e, ERR_IO, "--cache %s: %s", o->cache, strerror(errno));
    if (!rc && o->cache && !file_is_dir(o->cache)) rc = err_set(e, ERR_IO, "--cache %s: is no folder", o->cache);
    if (!rc && o->timeout > 0) n->self.me.silence_ms = (uint32_t)(o->timeout * 1000);
    if (!rc && o->as) snprintf(n->self.me.as, sizeof n->self.me.as, "%s", o->as);
    if (!rc) rc = list_devices(n, e);
    if (!rc) rc = keeper_open(&n->copies, o->models, o->n_model, o->cache, o->verify, e);
    n->host.copies = n->copies;
    const keeper_use keeps = {n, is_asked, file_decayed, files_looked_at};
    if (!rc) rc = keeper_begin(n->copies, &keeps, e);
    const door_use use = {n, node_has_room, node_enter};
    if (!rc) rc = door_open(&n->d, &n->at, &n->self, &use, e);
    if (!rc) return OK;
    node_close(n);
    *out = NULL;
    return rc;
}

void node_close(node *n)
{
    if (!n) return;
    door_close(n->d);
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g; g = g->next)
        if (g->l) lease_end(g->l, &(err){.code = ERR_CANCELLED, .msg = "the node has ended"});
    pthread_mutex_unlock(&n->lock);
    for (visitor *g; (g = take_gone(n, true));) close_beside(n, g);
    pthread_mutex_lock(&n->lock);
    while (n->n_closing) pthread_cond_wait(&n->closed, &n->lock);
    pthread_mutex_unlock(&n->lock);
    keeper_close(n->copies);
    lists_close(&n->told);
    pthread_cond_destroy(&n->closed);
    pthread_mutex_destroy(&n->lock);
    pthread_mutex_destroy(&n->memory.lock);
    mem_free(n);
}
