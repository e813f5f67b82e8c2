/* remote.c - see remote.h. */
#include "plan/remote.h"

#include "plan/rank_pass.h"
#include "plan/results.h"
#include "plan/row_faults.h"

#include <time.h>

int plan_lanes(const plan *l) { return l->lanes; }
int plan_channels(const plan *l) { return COLL_CHANNELS + steps_of_lane(l) * (int)l->n_cross; }

static uint64_t most_bytes(const plan *l, ref t, int64_t cols)
{
    return (uint64_t)cols * (uint64_t)l->max_rows[l->p->tensors[t].axis] * sizeof(float);
}

/* Of one crossing, from rank a to rank b. */
static uint64_t crossing_bytes(const plan *l, const plan_rank *a, const plan_rank *b, uint32_t k)
{
    const cut_part *part = &a->sends[k];
    if (!part->t || !b->receives[k]) return 0;
    if (b - l->ranks == l->results_to) return result_bytes_max(l, a, k);
    return passed_bytes(l, part->columns.to - part->columns.from, l->max_rows[l->p->tensors[l->cross[k].t].axis]);
}

uint64_t plan_channel_bytes(const plan *l, int a, int b, int channel)
{
    const plan_rank *x = &l->ranks[a], *y = &l->ranks[b];
    const plan_group *g = group_of(l, x);
    uint64_t most = 0;
    if (channel >= COLL_CHANNELS) {
        const uint32_t k = (uint32_t)(channel - COLL_CHANNELS) % l->n_cross;
        const uint64_t there = crossing_bytes(l, x, y, k), back = crossing_bytes(l, y, x, k);
        return there > back ? there : back;
    }
    for (uint32_t i = 0; x->group == y->group && i < g->n_coll; i++) {
        const ref t = g->colls[i].t;
        const uint64_t bytes = most_bytes(l, t, tensor_count(&l->p->tensors[t]));
        if (bytes > most) most = bytes;
    }
    return most;
}

/* On each channel two messages at most. */
uint64_t bytes_to_rank(const plan *l, int to)
{
    uint64_t sum = 0;
    for (int i = 0; i < l->n; i++) {
        if (is_here(l, &l->ranks[i])) continue;
        for (uint32_t k = 0; k < l->n_cross; k++)
            sum += 2 * (uint64_t)l->in_flight * crossing_bytes(l, &l->ranks[i], &l->ranks[to], k);
        for (int channel = 0; channel < COLL_CHANNELS; channel++) sum += 2 * plan_channel_bytes(l, i, to, channel);
    }
    return sum;
}

/* ---- what other processes tell */

bool plan_remote_done(plan *l, int rank, uint64_t number, double busy, const err *why)
{
    pthread_mutex_lock(&l->lock);
    const bool known = number >= l->collected && number < l->sent;
    if (known) {
        flight *f = &l->flights[number % (uint64_t)l->in_flight];
        f->remote--;
        l->ranks[rank].busy += busy;
        if (why->code && !f->rc) {
            f->failed_in = -1;
            f->rc = err_copy(&f->why, why);
        }
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return known;
}

bool plan_remote_fault(plan *l, int rank, uint64_t number, int32_t k, const row_fault *x)
{
    row_fault there = *x;
    there.rank = rank;
    pthread_mutex_lock(&l->lock);
    flight *f = &l->flights[number % (uint64_t)l->in_flight];
    const bool known = number >= l->collected && number < l->sent && k >= 0 && k < f->st->n_seq &&
                       (x->how == ROW_NOT_FINITE || x->how == ROW_NOT_HELD) && x->op < l->p->n_op;
    if (known) row_fault_note(f, k, &there);
    pthread_mutex_unlock(&l->lock);
    return known;
}

void plan_remote_lost(plan *l, const err *why)
{
    pthread_mutex_lock(&l->lock);
    if (!l->lost.code) l->lost = *why;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* Microseconds that the thread has computed; of a machine that is only pretended, that sleeps too. */
static uint64_t time_of(const plan *l, const rank_lane *a)
{
    struct timespec t = {0};
    clock_gettime(l->asked.pretended_speed.bytes_per_s > 0 || l->asked.pretended_speed.ops_per_s > 0 ? CLOCK_MONOTONIC
                                                                                                     : a->clock,
                  &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

plan_progress plan_progress_now(const plan *l)
{
    plan_progress p = {.waits = -1};
    for (int i = 0; i < l->n; i++) {
        const plan_rank *r = &l->ranks[i];
        for (int k = 0; is_here(l, r) && k < PLAN_LANES; k++) {
            const rank_lane *a = &r->lane[k];
            p.work += __atomic_load_n(&a->computed, __ATOMIC_RELAXED);
            if (__atomic_load_n(&a->computes, __ATOMIC_ACQUIRE)) p.work += time_of(l, a);
        }
        for (int k = 0; is_here(l, r) && k < l->lanes; k++) {
            const link_end *end = r->end[k];
            const int waits = end ? __atomic_load_n(&end->waits_for, __ATOMIC_RELAXED) : 0;
            if (waits) p.waits = waits - 1;
            if (end) p.alive += __atomic_load_n(&end->waited, __ATOMIC_RELAXED);
        }
    }
    return p;
}
