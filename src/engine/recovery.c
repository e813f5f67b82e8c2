/* recovery.c - when processes that have some of the devices are lost: queries wait, the plan is made anew as soon as
 * they, or their spares, can be reached, and every text goes on from its tokens, to the same bits.
 *
 * A device keeps nothing of a sequence but what its tokens determine, so nothing is saved or moved. */
#include "engine/beam.h"
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/leader.h"

#include <stdio.h>
#include <time.h>

/* Seconds between attempts; while there is nothing to do, a look at the queue. */
#define AGAIN 0.25
#define LOOK  0.02

static void add_stats(engine *g, uint64_t recoveries)
{
    pthread_mutex_lock(&g->lock);
    g->stats.recoveries += recoveries;
    g->stats.away = g->away.active;
    g->stats.running = 0;
    g->stats.kv_usage = 0;
    pthread_mutex_unlock(&g->lock);
}

static void set_why(engine *g, const err *why, bool vain)
{
    pthread_mutex_lock(&g->lock);
    g->away.why = *why;
    g->away.vain = vain;
    pthread_mutex_unlock(&g->lock);
}

/* A node was lost in a step with rows of these: each time is counted once. */
static void note_losses(const engine *g, const batch *b)
{
    for (int32_t k = 0; b && k < b->st.n_seq; k++) {
        session *s = beam_member(b->who[k], 0);
        if (s->lost_in != g->losses) s->losses++;
        s->lost_in = g->losses;
    }
}

/* Those whose steps have lost a node three times, alone at last, without a token in between. */
static void end_deadly(engine *g, const err *why)
{
    char text[ERR_MSG_MAX];
    snprintf(text, sizeof text, "%.350s (%d times while this text was computed, and no token in between)", why->msg,
             LOSSES_MOST);
    for (session *s = g->waiting, *next; s; s = next) {
        next = s->next;
        if (s->losses < LOSSES_MOST) continue;
        log_line(LOG_WARN, "a text is given up: %s", text);
        session_finish(g, s, FINISH_ERROR, text);
        g->away.losses = 0; /* the others need not wait longer for that */
        g->away.waited = 0;
    }
}

/* Devices are gone, as `why` says: texts go back to the queue. */
static void begin_recovery(engine *g, const err *why, bool lost)
{
    const double now = clock_now();
    const bool made = g->away.made != g->stats.generated_tokens;
    sessions_free_gone(g);
    schedule_requeue(g);
    engine_unplace(g);
    spares_turn(&g->devices, why->who);
    if (made) g->away.losses = 0, g->away.waited = 0;
    g->away.losses += lost;
    g->away.made = g->stats.generated_tokens;
    end_deadly(g, why);
    g->away.active = true;
    g->away.told = false;
    set_why(g, why, false);
    g->away.since = now - g->away.waited;
    g->away.next = now + (g->away.losses > 1 ? AGAIN * (1 << (g->away.losses < 6 ? g->away.losses - 1 : 5)) : 0);
    sessions_free_gone(g);
    add_stats(g, 0);
    peers_look(g, true);
}

bool recovery_begin(engine *g, const batch *failed)
{
    err ignored = {0}, why;
    if (!plan_is_lost(g->plan, &why)) return false;
    g->losses++;
    note_losses(g, failed);
    for (int rc; steps_under_way(&g->steps);) {
        const batch *b = steps_collect(&g->steps, g->plan, &rc, &ignored);
        note_losses(g, b);
        steps_lose_slots(&g->kv, b);
    }
    begin_recovery(g, &why, true);
    log_line(LOG_WARN, "%s: texts wait up to %.0f s for it", why.msg, g->options.peer_wait);
    return true;
}

bool recovery_leaves(engine *g)
{
    err why = {0};
    device_list other = g->devices;
    if (!g->leader || !leader_is_left(g->leader, &why)) return false;
    if (!spares_turn(&other, why.who)) return false;
    if (steps_under_way(&g->steps)) return true;
    begin_recovery(g, &why, false);
    log_line(LOG_INFO, "%s: its spare takes its part", why.msg);
    return true;
}

/* When a query has waited long enough. */
static double wait_end(const engine *g, const session *s)
{
    return (s->added > g->away.since ? s->added : g->away.since) + g->options.peer_wait;
}

/* Seconds until the first query has waited long enough. */
static double least_wait(const engine *g)
{
    double end = clock_now() + g->options.peer_wait;
    for (const session *s = g->waiting; s; s = s->next)
        if (wait_end(g, s) < end) end = wait_end(g, s);
    return end - clock_now();
}

/* Ends queries that have waited long enough; all of them when waiting is of no use. */
static void end_queries(engine *g, bool all)
{
    if (!g->away.vain && clock_now() - g->away.since >= g->options.peer_wait) {
        log_line(LOG_WARN, "%s: waited %.0f s in vain, new texts are refused until it is there again", g->away.why.msg,
                 g->options.peer_wait);
        set_why(g, &g->away.why, true);
    }
    const double now = clock_now();
    char text[ERR_MSG_MAX];
    snprintf(text, sizeof text, "%.400s (waited %.0f s)", g->away.why.msg, g->options.peer_wait);
    for (session *s = g->waiting, *next; s; s = next) {
        next = s->next;
        if (all || now >= wait_end(g, s)) session_finish(g, s, FINISH_ERROR, all ? g->away.why.msg : text);
    }
    sessions_free_gone(g);
}

/* The node of a device; here, the device. */
static span name_of(const device_entry *d) { return *d->node ? span_str(d->node) : d->text; }

/* A line for each node whose part another one has taken. */
static void tell_spares(engine *g)
{
    for (int i = 0; i < g->devices.n; i++) {
        const span before = name_of(device_at(&g->served_by, i)), now = name_of(device_at(&g->devices, i));
        if (g->served_by.chosen[i] != g->devices.chosen[i])
            log_line(LOG_WARN, "%.*s takes the part of %.*s", (int)now.n, (const char *)now.p, (int)before.n,
                     (const char *)before.p);
    }
    g->served_by = g->devices;
}

void recovery_go_on(engine *g)
{
    schedule_accept(g);
    sessions_free_gone(g);
    err e = {0};
    if (clock_now() < g->away.next) {
        end_queries(g, false);
        nanosleep(&(struct timespec){.tv_nsec = (long)(LOOK * 1e9)}, NULL);
        return;
    }
    int rc = engine_place_again(g, engine_patience(least_wait(g)), &e);
    if (!rc) {
        g->away.active = false;
        set_why(g, &g->away.why, false);
        tell_spares(g);
        g->away.waited = clock_now() - g->away.since;
        log_line(LOG_WARN, "all devices are there again");
        add_stats(g, 1);
        peers_look(g, true);
        return;
    }
    engine_unplace(g);
    if (spares_turn(&g->devices, e.who)) rc = ERR_IO; /* another one may do */
    const bool final = rc != ERR_IO && rc != ERR_BUSY && rc != ERR_CANCELLED && rc != ERR_UNAVAILABLE;
    set_why(g, &e, g->away.vain);
    if (final && !g->away.told) log_line(LOG_WARN, "%s: texts end, and new ones too as long as that is so", e.msg);
    g->away.told = final;
    g->away.next = clock_now() + AGAIN;
    peers_look(g, true);
    end_queries(g, final);
}
