/* recovery.c - when processes that have some of the devices are lost: queries wait, the plan is made anew as soon as
 * they, or their spares, can be reached, and every text goes on from its tokens, to the same bits.
 *
 * A device keeps nothing of a sequence but what its tokens determine, so nothing is saved or moved. */
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <time.h>

/* Seconds between attempts; while there is nothing to do, a look at the queue. */
#define AGAIN 0.25
#define LOOK  0.02

static void add_stats(engine *g, uint64_t recoveries)
{
    pthread_mutex_lock(&g->lock);
    g->stats.recoveries += recoveries;
    g->stats.away = g->away.is;
    g->stats.running = 0;
    g->stats.kv_usage = 0;
    pthread_mutex_unlock(&g->lock);
}

bool recovery_begin(engine *g)
{
    err ignored = {0}, why;
    if (!plan_is_lost(g->placed, &why)) return false;
    for (int rc; steps_under_way(&g->steps);) slots_lost(g, steps_collect(&g->steps, g->placed, &rc, &ignored));
    sessions_free_gone(g);
    schedule_requeue(g);
    engine_unplace(g);
    if (g->asked.devices) spares_turn(&g->spare, g->asked.devices, why.msg);
    g->away.is = true;
    g->away.why = why;
    g->away.since = g->away.next = clock_now();
    log_line(LOG_WARN, "%s: texts wait up to %.0f s for it", why.msg, g->asked.peer_wait);
    add_stats(g, 0);
    peers_look(g, true);
    return true;
}

/* When a query has waited long enough. */
static double wait_end(const engine *g, const session *s)
{
    return (s->added > g->away.since ? s->added : g->away.since) + g->asked.peer_wait;
}

/* Seconds until the first query has waited long enough. */
static double least_wait(const engine *g)
{
    double end = clock_now() + g->asked.peer_wait;
    for (const session *s = g->waiting; s; s = s->next)
        if (wait_end(g, s) < end) end = wait_end(g, s);
    return end - clock_now();
}

/* Ends queries that have waited long enough; all of them when waiting is of no use. */
static void end_queries(engine *g, bool all)
{
    const double now = clock_now();
    char text[ERR_MSG_MAX];
    snprintf(text, sizeof text, "%.400s (waited %.0f s)", g->away.why.msg, g->asked.peer_wait);
    for (session *s = g->waiting, *next; s; s = next) {
        next = s->next;
        if (all || now >= wait_end(g, s)) session_finish(g, s, FINISH_ERROR, all ? g->away.why.msg : text);
    }
    sessions_free_gone(g);
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
    int rc = engine_place(g, false, engine_patience(least_wait(g)), &e);
    if (!rc) {
        g->away.is = false;
        log_line(LOG_WARN, "all devices are there again");
        add_stats(g, 1);
        peers_look(g, true);
        return;
    }
    engine_unplace(g);
    if (g->asked.devices && spares_turn(&g->spare, g->asked.devices, e.msg)) rc = ERR_IO; /* another one may do */
    const bool final = rc != ERR_IO && rc != ERR_BUSY && rc != ERR_CANCELLED;
    g->away.why = e;
    g->away.next = clock_now() + AGAIN;
    peers_look(g, true);
    end_queries(g, final);
}
