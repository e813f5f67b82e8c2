/* meet.c - see meet.h. A thread for each two ranks while they are not connected. */
#include "net/meet.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/at_once.h"

#include <math.h>
#include <pthread.h>

#define OTHER_WAY_AFTER 1.0 /* seconds */
#define AGAIN_AFTER     1.0

struct meeting {
    meet_ask a;
    pthread_t thread;
};

/* Whether it means the machine of whoever reads it. */
static bool is_local(const char *node)
{
    address at;
    return address_parse(&at, node, false, NULL) == OK && address_is_loopback(&at);
}

/* Seconds until rank b is dialled from here. INFINITY: never, as its name means another machine here than where the
 * leader is, and b knows that. */
static double patience_for(const meeting *m, int b)
{
    const rank_links_others *o = m->a.others;
    const bool mine = is_local(o->node[o->rank]), theirs = is_local(o->node[b]);
    if (theirs && !mine) return INFINITY;
    return b > o->rank || (mine && !theirs) ? 0 : OTHER_WAY_AFTER;
}

static int meet_one(void *ctx, int b, err *e)
{
    const meeting *m = ctx;
    const meet_ask *a = &m->a;
    const int rank = a->others->rank;
    address at;
    if (!a->others->is[b] || !a->others->node[b][0] || !rank_links_misses(a->w, rank, b, patience_for(m, b))) return OK;
    int rc = address_parse(&at, a->others->node[b], false, e);
    for (bool again = false; !rc && (!again || rank_links_misses(a->w, rank, b, AGAIN_AFTER)); again = true) {
        err why = {0};
        if (rank_links_dial(a->w, rank, b, &at, a->token[b], a->self, INFINITY, &why) == OK) return OK;
        if (why.code == ERR_CANCELLED) return OK;
        log_line(again ? LOG_DEBUG : LOG_WARN, "%s: rank %d: %s", a->by, b, why.msg);
    }
    return OK;
}

static void *meet_all(void *arg)
{
    const meeting *m = arg;
    err e = {0};
    at_once(m->a.others->ranks, meet_one, arg, &e);
    if (e.code) log_line(LOG_WARN, "%s: %s", m->a.by, e.msg);
    return NULL;
}

int meet_begin(meeting **out, const meet_ask *a, err *e)
{
    meeting *m = *out = mem_zero(1, sizeof *m);
    if (!m) return err_memory(e, "connections");
    m->a = *a;
    if (pthread_create(&m->thread, NULL, meet_all, m) == 0) return OK;
    mem_free(m);
    *out = NULL;
    return err_set(e, ERR_MEMORY, "a thread could not be started");
}

int meet_await(const meeting *m, double seconds, err *e)
{
    int missing;
    int rc = rank_links_wait(m->a.w, seconds, &missing, e);
    const rank_links_others *o = m->a.others;
    if (!rc || missing < 0 || !o->node[missing][0]) return rc;
    *e = (err){0};
    err_set(e, ERR_IO, "ranks %d and %d (%s and %s) cannot reach each other: their logs say why", o->rank, missing,
            o->node[o->rank], o->node[missing]);
    return err_also(e, o->node[missing]);
}

void meet_close(meeting *m)
{
    if (!m) return;
    pthread_join(m->thread, NULL);
    mem_free(m);
}
