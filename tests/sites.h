/* sites.h - for tests: the ranks that a list gives to nodes, "a:1/cpu", as plans of this process, joined by a link of
 * threads. */
#pragma once
#include "comm/link_threads.h"
#include "plan/devices.h"
#include "plan/drive.h"
#include "plan/plan_memory.h"
#include "plan/remote.h"
#include "test.h"

#include <pthread.h>

typedef struct site {
    struct sites *of;
    plan *l;
    pthread_t thread;
    bool has_thread;
} site;

typedef struct sites {
    const backend_use *backends;
    plan *leader;
    site at[DEVICES_MAX];
    link_group *link[PLAN_LANES];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t sent;
    bool over;
} sites;

/* What a node does: waits for steps, and says when they are done. */
static void *site_thread(void *arg)
{
    site *s = arg;
    sites *of = s->of;
    for (uint64_t number = 0;; number++) {
        err e = {0};
        pthread_mutex_lock(&of->lock);
        while (of->sent <= number && !of->over) pthread_cond_wait(&of->changed, &of->lock);
        const bool over = of->sent <= number;
        pthread_mutex_unlock(&of->lock);
        if (over) return NULL;
        plan_collect(s->l, &e); /* what went wrong is in e */
        plan_remote_done(of->leader, (int)(s - of->at), number, 0, &e);
    }
}

static int sites_open(void *self, plan *l, err *e)
{
    sites *s = self;
    int rc = OK;
    s->leader = l;
    for (int i = 0; i < plan_segments(l) && !rc; i++) {
        plan_options o = *plan_asked(l);
        if (!plan_node(l, i)) continue;
        o.remote = NULL;
        o.rank = i + 1;
        o.backends = s->backends;
        s->at[i].of = s;
        rc = plan_open(&s->at[i].l, plan_program(l), &o, e);
    }
    return rc;
}

static void sites_memory(void *self, int rank, dtype k_type, dtype v_type, plan_room *out)
{
    assert_true(plan_memory(((sites *)self)->at[rank].l, 0, k_type, v_type, out));
}

static int sites_ready(void *self, const cache_options *cache, link_end *(*ends)[PLAN_LANES], err *e)
{
    sites *s = self;
    const int n = plan_segments(s->leader);
    int rc = OK;
    for (int k = 0; k < plan_lanes(s->leader) && !rc; k++) {
        rc = link_threads_open(&s->link[k], n, plan_channels(s->leader), e);
        for (int i = 0; i < n && !rc; i++) ends[i][k] = link_threads_end(s->link[k], i);
    }
    for (int i = 0; i < n && !rc; i++)
        if (s->at[i].l) {
            rc = plan_ready(s->at[i].l, cache, ends, e);
            s->at[i].has_thread = !rc && pthread_create(&s->at[i].thread, NULL, site_thread, &s->at[i]) == 0;
        }
    return rc;
}

static void sites_send(void *self, uint64_t number, const step *st)
{
    sites *s = self;
    (void)number;
    for (int i = 0; i < DEVICES_MAX; i++)
        if (s->at[i].l) plan_send(s->at[i].l, st);
    pthread_mutex_lock(&s->lock);
    s->sent++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void sites_close(void *self)
{
    sites *s = self;
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (s->at[i].has_thread) pthread_join(s->at[i].thread, NULL);
        plan_close(s->at[i].l);
        s->at[i] = (site){0};
    }
    for (int k = 0; k < PLAN_LANES; k++) link_threads_close(s->link[k]);
    memset(s->link, 0, sizeof s->link);
}

/* Into memory of the caller, for one plan. */
static inline plan_remote sites_of(sites *s, const backend_use *backends)
{
    *s = (sites){.backends = backends, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    return (plan_remote){s, true, sites_open, sites_memory, sites_ready, sites_send, sites_close};
}
