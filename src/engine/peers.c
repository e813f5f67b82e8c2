/* peers.c - what is known of the nodes of --devices, for those who ask from other threads. */
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/leader.h"
#include "net/peer.h"
#include "plan/devices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EVERY 0.5 /* seconds between looks */

static engine_peer *find_peer(engine *g, const char *name)
{
    for (int i = 0; i < g->peers.n; i++)
        if (!strcmp(g->peers.list[i].name, name)) return &g->peers.list[i];
    return NULL;
}

int peers_open(engine *g, err *e)
{
    const device_list *l = &g->devices;
    g->peers.list = mem_zero(DEVICES_MAX, sizeof *g->peers.list);
    g->peers.before = mem_zero(DEVICES_MAX, sizeof *g->peers.before);
    if (!g->peers.list || !g->peers.before) return err_memory(e, "the engine");
    for (const device_entry *d = l->all; d < l->all + l->first[l->n] && g->peers.n < DEVICES_MAX; d++) {
        if (!*d->node || find_peer(g, d->node)) continue;
        g->peers.list[g->peers.n].state = ENGINE_PEER_AWAY;
        memcpy(g->peers.list[g->peers.n++].name, d->node, sizeof d->node);
    }
    return OK;
}

static void add_traffic(engine_traffic *to, const engine_traffic *before, const uint64_t by_use[USE_COUNT])
{
    to->step = before->step + by_use[USE_STEP];
    to->data = before->data + by_use[USE_DATA];
    to->weight = before->weight + by_use[USE_WEIGHT];
}

/* Of the memory of its pages, what queries hold. */
static double kv_usage(const engine *g, const leader_node *node)
{
    double used = 0, all = 0;
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        const page_pool *p = &g->kv.pages[i];
        used += (double)node->page[i] * (double)(p->total - p->n_free - p->n_kept);
        all += (double)node->page[i] * (double)p->total;
    }
    return all > 0 ? used / all : 0;
}

/* What its connections have carried: these, and those before. */
static void add_counts(engine_peer *p, const engine_peer *before, const leader_node *node)
{
    add_traffic(&p->sent, &before->sent, node->bytes.sent);
    add_traffic(&p->received, &before->received, node->bytes.received);
    p->wait = before->wait + node->wait;
}

static void look_up(engine *g)
{
    leader_node up[DEVICES_MAX];
    const int n = g->leader ? leader_nodes(g->leader, up, DEVICES_MAX) : 0;
    for (int i = 0; i < g->peers.n; i++) g->peers.list[i].unused = true;
    for (int i = 0; i < n; i++) {
        engine_peer *p = find_peer(g, up[i].name);
        if (!p) continue;
        p->state = ENGINE_PEER_UP;
        p->unused = false;
        p->detail[0] = 0;
        p->rtt_ms = up[i].rtt * 1e3;
        p->kv_usage = kv_usage(g, &up[i]);
        p->hashed = up[i].hashed_at / 1000000000;
        add_counts(p, &g->peers.before[p - g->peers.list], &up[i]);
        if (*up[i].pretended_speed && !p->pretended_speed[0])
            log_line(LOG_WARN, "%s pretends to be a machine of %s GB/s,GOP/s (node --as): times are not this one's",
                     p->name, up[i].pretended_speed);
        snprintf(p->pretended_speed, sizeof p->pretended_speed, "%s", up[i].pretended_speed);
        snprintf(p->node, sizeof p->node, "%016" PRIx64, up[i].id);
    }
    for (engine_peer *p = g->peers.list; p < g->peers.list + g->peers.n; p++)
        if (p->unused && p->state == ENGINE_PEER_UP) p->state = ENGINE_PEER_AWAY;
    for (engine_peer *p = g->peers.list; p < g->peers.list + g->peers.n; p++)
        if (p->unused && !p->detail[0]) snprintf(p->detail, sizeof p->detail, "a spare, not in use");
}

/* The node that the error is about is away, or refuses. */
static void look_away(engine *g)
{
    for (int i = 0; i < g->peers.n; i++) {
        engine_peer *p = &g->peers.list[i];
        if (!err_is_of(&g->away.why, p->name)) continue;
        p->state = g->away.why.code == ERR_IO ? ENGINE_PEER_AWAY : ENGINE_PEER_REFUSED;
        snprintf(p->detail, sizeof p->detail, "%.290s", err_own(&g->away.why));
    }
}

/* ---- spares */

#define GREET_EVERY 5.0 /* seconds */

/* Asks one that is not in use whether it is there; what has changed is told in the log. */
static void greet_peer(engine *g, int i, const peer_self *self)
{
    char name[sizeof g->peers.list->name];
    address at;
    hello theirs;
    err e = {0};
    pthread_mutex_lock(&g->lock);
    engine_peer *p = &g->peers.list[i];
    const bool unused = p->unused;
    memcpy(name, p->name, sizeof name);
    pthread_mutex_unlock(&g->lock);
    if (!unused) return;
    int rc = address_parse(&at, name, false, &e);
    if (!rc) rc = peer_look(&theirs, &at, self, &e);
    pthread_mutex_lock(&g->lock);
    const engine_peer_state before = p->state, now = rc ? ENGINE_PEER_DOWN : ENGINE_PEER_SPARE;
    const bool still = p->unused;
    if (still) {
        p->state = now;
        snprintf(p->detail, sizeof p->detail, "%.290s", rc ? err_own(&e) : "a spare, not in use");
        if (!rc) snprintf(p->node, sizeof p->node, "%016" PRIx64, theirs.node);
    }
    pthread_mutex_unlock(&g->lock);
    if (still && rc && before != now) log_line(LOG_WARN, "the spare %s does not answer: %s", name, e.msg);
    if (still && !rc && before == ENGINE_PEER_DOWN) log_line(LOG_INFO, "the spare %s is there", name);
}

static void *greet_spares(void *arg)
{
    engine *g = arg;
    peer_self self;
    err e = {0};
    if (peer_self_open(&self, g->options.key_file, &e)) return NULL; /* told by whoever opens the leader */
    self.patience = 1;
    self.me.inexact = g->options.choices.exact == EXACT_OFF;
    pthread_mutex_lock(&g->lock);
    while (!g->peers.stop) {
        pthread_mutex_unlock(&g->lock);
        for (int i = 0; i < g->peers.n; i++) greet_peer(g, i, &self);
        const double until = clock_now() + GREET_EVERY;
        pthread_mutex_lock(&g->lock);
        while (!g->peers.stop && cond_wait(&g->peers.woken, &g->lock, until)) continue;
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

void peers_greet(engine *g)
{
    cond_open(&g->peers.woken);
    if (g->options.key_file && spares_exist(&g->devices))
        g->peers.greets = pthread_create(&g->peers.greeter, NULL, greet_spares, g) == 0;
}

void peers_close(engine *g)
{
    if (!g->peers.greets) return;
    pthread_mutex_lock(&g->lock);
    g->peers.stop = true;
    pthread_cond_broadcast(&g->peers.woken);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->peers.greeter, NULL);
    g->peers.greets = false;
}

void peers_look(engine *g, bool now)
{
    const double at = clock_now();
    if (!g->peers.n || (!now && at - g->peers.looked < EVERY)) return;
    g->peers.looked = at;
    pthread_mutex_lock(&g->lock);
    if (g->away.active) look_away(g);
    else look_up(g);
    pthread_mutex_unlock(&g->lock);
}

void peers_part(engine *g)
{
    leader_node left[DEVICES_MAX];
    const int n = g->leader && g->peers.n ? leader_nodes(g->leader, left, DEVICES_MAX) : 0;
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < n; i++) {
        engine_peer *p = find_peer(g, left[i].name);
        if (!p) continue;
        add_counts(p, &g->peers.before[p - g->peers.list], &left[i]);
        p->kv_usage = 0;
        g->peers.before[p - g->peers.list] = *p;
    }
    pthread_mutex_unlock(&g->lock);
}

void peers_lost(void *g) { engine_wake(g); }

int engine_peers(engine *g, engine_peer *out, int most)
{
    pthread_mutex_lock(&g->lock);
    const int n = g->peers.n < most ? g->peers.n : most;
    if (n) memcpy(out, g->peers.list, (size_t)n * sizeof *out);
    pthread_mutex_unlock(&g->lock);
    return n;
}
