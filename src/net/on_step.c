/* on_step.c - STEP on a node. Steps go to the plan from the thread that reads them, which never waits: the leader sends
 * one only when there is a place for it. Another thread collects them and says that they are DONE. */
#include "net/lease_state.h"
#include "net/question.h"
#include "plan/drive.h"

#include <inttypes.h>

static int admit_step(void *to, peer *from, const frame_head *h, uint8_t **room, err *e)
{
    lease *l = to;
    const bool ready = lease_is_ready(l);
    (void)from;
    if (!ready || h->bytes > l->step_bytes)
        return err_set(e, ERR_FORMAT, "a step of %u bytes: at most %" PRIu64, h->bytes, ready ? l->step_bytes : 0);
    if (h->bytes > FRAME_SMALL) *room = l->step_room;
    return OK;
}

static int take_step(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    lease *l = to;
    hosted_rank *r = &l->base;
    const step *st;
    (void)from;
    pthread_mutex_lock(&r->lock);
    const bool in_turn = h->channel == l->sent && l->sent < l->done + (uint64_t)l->ask.choices.in_flight;
    pthread_mutex_unlock(&r->lock);
    if (!in_turn) return err_set(e, ERR_FORMAT, "step %" PRIu64 " out of turn", h->channel);
    int rc = step_read(l->reader, span_of(payload, h->bytes), &st, e);
    if (rc) return rc;
    pthread_mutex_lock(&r->lock);
    const bool over = r->over; /* then nobody would collect it */
    if (!over) l->sent++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (!over) plan_send(l->plan, st);
    return OK;
}

const msg_handler on_STEP = {admit_step, take_step};

static void *collect_steps(void *arg)
{
    lease *l = arg;
    hosted_rank *r = &l->base;
    double busy = 0;
    for (uint64_t number = 0;; number++) {
        err e = {0};
        buf more = {0};
        pthread_mutex_lock(&r->lock);
        while (l->sent <= number && !r->over) pthread_cond_wait(&r->changed, &r->lock);
        const bool none = l->sent <= number;
        pthread_mutex_unlock(&r->lock);
        if (none) return NULL;
        int rc = plan_collect(l->plan, &e);
        if (!rc) part_check(l->part, &e);
        pthread_mutex_lock(&r->lock);
        l->done = number + 1;
        pthread_mutex_unlock(&r->lock);
        const double before = busy;
        busy = plan_busy(l->plan, r->rank);
        lease_seconds_write(&more, busy - before);
        tally_step(r->host->done, busy - before);
        lease_faults_write(&more, plan_faults(l->plan), (int32_t)plan_sequences(l->plan));
        const err torn = e;
        const bool broken = plan_is_broken(l->plan, NULL); /* then texts go on elsewhere: it is not their error */
        if (broken) lease_lose_part(l, &torn);
        else if (answer_send(r->control, MSG_DONE, number, &torn, buf_span(&more), &e)) hosted_end(r, &e);
        if (torn.code == ERR_UNAVAILABLE && !broken) lease_lose_part(l, &torn);
        buf_free(&more);
    }
}

int lease_begin_steps(lease *l, err *e)
{
    l->collects = pthread_create(&l->collector, NULL, collect_steps, l) == 0;
    pthread_mutex_lock(&l->base.lock);
    l->ready = l->collects;
    pthread_mutex_unlock(&l->base.lock);
    return l->collects ? OK : err_set(e, ERR_MEMORY, "a thread could not be started");
}
