/* slow_lane.c - see slow_lane.h. */
#include "serve/slow_lane.h"

#include "base/mem.h"

#include <pthread.h>

struct slow_lane {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    slow_work *first, **last;
    int n;
    bool runs, over;
};

static void *run_lane(void *arg)
{
    slow_lane *l = arg;
    pthread_mutex_lock(&l->lock);
    while (l->n || !l->over) {
        if (!l->n) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        slow_work *w = l->first;
        l->first = w->next;
        if (--l->n == 0) l->last = &l->first;
        const bool runs = !l->over;
        pthread_mutex_unlock(&l->lock);
        if (runs) w->run(w);
        w->done(w);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int slow_lane_open(slow_lane **out, err *e)
{
    slow_lane *l = *out = mem_zero(1, sizeof *l);
    if (!l) return err_memory(e, NULL);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->last = &l->first;
    l->runs = pthread_create(&l->thread, NULL, run_lane, l) == 0;
    if (l->runs) return OK;
    slow_lane_close(l);
    *out = NULL;
    return err_set(e, ERR_IO, "cannot start a thread for long requests");
}

int slow_lane_waiting(slow_lane *l)
{
    pthread_mutex_lock(&l->lock);
    const int n = l->n;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void slow_lane_put(slow_lane *l, slow_work *w)
{
    pthread_mutex_lock(&l->lock);
    const bool in = !l->over;
    if (in) {
        w->next = NULL;
        *l->last = w;
        l->last = &w->next;
        l->n++;
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    if (!in) w->done(w);
}

void slow_lane_end(slow_lane *l)
{
    pthread_mutex_lock(&l->lock);
    l->over = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (l->runs) pthread_join(l->thread, NULL);
    l->runs = false;
}

void slow_lane_close(slow_lane *l)
{
    if (!l) return;
    slow_lane_end(l);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    mem_free(l);
}
