/* node.c - see node.h. Who is in, and what becomes of them; what they ask for: on_lease.c, on_trial.c, on_join.c,
 * on_measure.c. */
#include "net/node_state.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/lease.h"
#include "net/question.h"
#include "net/store.h"
#include "plan/devices.h"

#include <sys/stat.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { VISITORS_MAX = 1024 };
#define LOOK_EVERY 0.25

/* ---- messages */

static void *visitor_receiver(void *ctx, peer *p, const frame_head *h, msg_receiver kind)
{
    visitor *g = ctx;
    hosted_rank *r = g->rank;
    if (!r) return kind == FOR_VISITOR && !g->joins ? g : NULL;
    if (g->from < 0) return r->kind->receiver(r, p, h, kind);
    return kind == FOR_MAILBOXES ? rank_links_mailboxes(hosted_links(r), r->rank, g->from) : NULL;
}

int visitor_admit(void *to, peer *from, const frame_head *h, uint8_t **room, err *e)
{
    visitor *g = to;
    (void)from;
    atomic_store(&g->asks, true);
    if (h->bytes <= FRAME_SMALL) return OK;
    *room = g->room = mem_alloc(h->bytes);
    return g->room ? OK : err_memory(e, "a lease");
}

int visitor_host(visitor *g, hosted_opener *open, span payload, err *e)
{
    node *n = g->of;
    hosted_rank *r;
    pthread_mutex_lock(&n->lock);
    const bool drains = n->drains;
    pthread_mutex_unlock(&n->lock);
    if (drains) return err_set(e, ERR_BUSY, "this node is about to end");
    int rc = open(&r, &n->host, g->p, payload, e);
    pthread_mutex_lock(&n->lock);
    const bool late = !rc && g->closes;
    if (!rc && !late) g->rank = r;
    pthread_mutex_unlock(&n->lock);
    if (!late) return rc ? rc : hosted_begin(r, e);
    hosted_close(r);
    return err_set(e, ERR_CANCELLED, "it is gone");
}

/* One that has said nothing, or joins what nobody knows, for too long; held. */
static peer *find_idle(node *n, err *why)
{
    peer *p = NULL;
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g && !p; g = g->next) {
        if (g->rank || g->gone || g->asks || clock_now() < g->until) continue;
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

int visitor_settle(visitor *g, int rc, err *e)
{
    mem_free(g->room);
    g->room = NULL;
    if (rc) log_line(LOG_WARN, "refused %s: %s", peer_name(g->p), e->msg);
    if (rc != ERR_BUSY) return rc;
    const err why = *e;
    *e = (err){0};
    pthread_mutex_lock(&g->of->lock);
    g->until = clock_now() + ASK_SECONDS;
    pthread_mutex_unlock(&g->of->lock);
    atomic_store(&g->asks, false);
    return answer_send(g->p, MSG_ANSWER, 0, &why, (span){0}, e);
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
    hosted_rank *r = g->rank;
    g->gone = true;
    g->lost = say;
    pthread_mutex_unlock(&g->of->lock);
    if (r) hosted_end(r, &say);
}

/* The rank of which the visitor is the leader; and where that is one of a plan. NULL: none. */
static hosted_rank *led_rank(const visitor *g) { return g->from < 0 ? g->rank : NULL; }

static lease *led_lease(const visitor *g)
{
    hosted_rank *r = led_rank(g);
    return r ? lease_of(r) : NULL;
}

static void visitor_tell(void *ctx, progress *mine)
{
    hosted_rank *r = led_rank(ctx);
    if (r) hosted_progress(r, mine);
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
    const peer_use use = {.ctx = g, .receiver = visitor_receiver, .lost = visitor_lost, .tell = visitor_tell};
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
    hosted_rank *r = led_rank(g);
    peer_count(g->p, to);
    if (r) hosted_count(r, to);
}

/* Takes those of one lease that is over out of the list, or one who has none and is gone: its links first, its leader
 * last, linked by `next`. NULL: there is nobody. */
static visitor *take_gone(node *n, bool all)
{
    visitor *gone = NULL, *out = NULL, **end = &out;
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g && !gone; g = g->next)
        if (all || g->gone || (g->rank && hosted_is_over(g->rank))) gone = g;
    const hosted_rank *r = gone ? gone->rank : NULL;
    for (int leads = 0; leads < 2 && gone; leads++)
        for (visitor **at = &n->visitors; *at;) {
            visitor *g = *at;
            if (r ? g->rank != r || (g->from < 0) != leads : g != gone) {
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
        hosted_rank *leads = led_rank(g);
        const lease *l = led_lease(g);
        pthread_mutex_lock(&g->of->lock);
        const err lost = g->lost; /* before this ends the connection */
        pthread_mutex_unlock(&g->of->lock);
        if (g->rank) hosted_end(g->rank, &ended);
        if (g->rank) hosted_stop(g->rank);
        measuring_close(g->measures);
        if (l) lease_say_end(l, lost.code ? lost.msg : NULL);
        peer_close(g->p);
        hosted_close(leads);
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
        if (led_lease(g)) hosted_progress(led_rank(g), &p);
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
    for (const visitor *g = n->visitors; g; g = g->next) count += led_rank(g) != NULL;
    pthread_mutex_unlock(&n->lock);
    return count;
}

bool node_works(node *n)
{
    bool works = false;
    pthread_mutex_lock(&n->lock);
    for (const visitor *g = n->visitors; g && !works; g = g->next) works = led_rank(g) && hosted_works(led_rank(g));
    pthread_mutex_unlock(&n->lock);
    return works;
}

/* Bytes of the device that has most, within what the node lends. */
static uint64_t memory_left(node *n)
{
    uint64_t left = 0;
    const uint64_t lends = quota_left(&n->memory);
    device_here here[HELLO_DEVICES];
    const int count = devices_here(n->o.backends, here, HELLO_DEVICES);
    for (int i = 0; i < count; i++)
        if (here[i].info.free_bytes > left) left = here[i].info.free_bytes;
    return left < lends ? left : lends;
}

void node_look(node *n, node_report *out)
{
    pthread_mutex_lock(&n->lock);
    *out = (node_report){.connections = n->n_visitor, .bytes = n->before, .drains = n->drains};
    for (const visitor *g = n->visitors; g; g = g->next) {
        lease *l = led_lease(g);
        count_bytes(g, &out->bytes);
        out->leases += l != NULL;
        out->stalled += l && g->rest > PROGRESS_BUSY;
        if (l) out->steps_under_way += lease_steps(l);
    }
    pthread_mutex_unlock(&n->lock);
    out->parts = parts_count(&n->shared);
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
        if (led_lease(g) && peer_protocol(g->p) >= 2)
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
        if (led_lease(g)) lease_lose_file(led_lease(g), id, why);
    pthread_mutex_unlock(&n->lock);
}

static void files_looked_at(void *ctx)
{
    node *n = ctx;
    pthread_mutex_lock(&n->lock);
    for (const visitor *g = n->visitors; g; g = g->next)
        if (led_lease(g)) lease_look(led_lease(g));
    pthread_mutex_unlock(&n->lock);
}

/* ---- */

const address *node_address(const node *n) { return &n->at; }

const hello *node_says(const node *n) { return &n->self.me; }

/* Adds a device to what the node says of itself. */
static void add_device(node *n, const device_here *here)
{
    hello *me = &n->self.me;
    if (me->n_device == HELLO_DEVICES) return;
    hello_device *d = &me->device[me->n_device++];
    snprintf(d->name, sizeof d->name, "%s", here->name);
    snprintf(d->what, sizeof d->what, "%.60s", here->info.name);
    d->bytes = n->o.memory && n->o.memory < here->info.free_bytes ? n->o.memory : here->info.free_bytes;
}

static int list_devices(node *n, err *e)
{
    device_entry lent[DEVICES_MAX];
    device_here here[HELLO_DEVICES];
    const int count = n->o.devices ? devices_lent(n->o.devices, n->o.backends, lent, e)
                                   : devices_here(n->o.backends, here, HELLO_DEVICES);
    for (int i = 0; i < count; i++)
        if (!n->o.devices) add_device(n, &here[i]);
        else if (device_look(lent[i].be, lent[i].number, &here[0]) && !here[0].info.why) add_device(n, &here[0]);
    return count < 0 ? count : OK;
}

int node_open(node **out, const node_options *o, err *e)
{
    node *n = *out = mem_zero(1, sizeof *n);
    if (!n) return err_memory(e, "a node");
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->closed, NULL);
    quota_open(&n->memory, o->memory);
    n->o = *o;
    n->at = o->at;
    n->host = (rank_host){.backends = o->backends,
                          .devices = o->devices,
                          .models = o->models,
                          .n_model = o->n_model,
                          .cache = o->cache,
                          .cache_bytes = o->cache_bytes,
                          .self = &n->self,
                          .memory = &n->memory,
                          .parts = &n->shared,
                          .met = join_waiting,
                          .ctx = n,
                          .told = &n->told,
                          .done = &n->done};
    lists_open(&n->told, o->cache);
    parts_open(&n->shared);
    int rc = o->pretended_speed ? pace_parse(&n->host.pretended_speed, o->pretended_speed, e) : OK;
    if (!rc) rc = peer_self_open(&n->self, o->key_file, e);
    if (!rc && o->cache && mkdir(o->cache, 0700) && errno != EEXIST) /* told now, not by the first lease */
        rc = err_set(e, ERR_IO, "--cache %s: %s", o->cache, strerror(errno));
    if (!rc && o->cache && !file_is_dir(o->cache)) rc = err_set(e, ERR_IO, "--cache %s: is no folder", o->cache);
    if (!rc && o->timeout > 0) n->self.me.silence_ms = (uint32_t)(o->timeout * 1000);
    if (!rc && o->pretended_speed)
        snprintf(n->self.me.pretended_speed, sizeof n->self.me.pretended_speed, "%s", o->pretended_speed);
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
        if (g->rank) hosted_end(g->rank, &(err){.code = ERR_CANCELLED, .msg = "the node has ended"});
    pthread_mutex_unlock(&n->lock);
    for (visitor *g; (g = take_gone(n, true));) close_beside(n, g);
    pthread_mutex_lock(&n->lock);
    while (n->n_closing) pthread_cond_wait(&n->closed, &n->lock);
    pthread_mutex_unlock(&n->lock);
    keeper_close(n->copies);
    lists_close(&n->told);
    parts_close(&n->shared);
    pthread_cond_destroy(&n->closed);
    pthread_mutex_destroy(&n->lock);
    quota_close(&n->memory);
    mem_free(n);
}
