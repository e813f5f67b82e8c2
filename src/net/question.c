/* question.c - see question.h. */
#include "net/question.h"

#include "base/cond.h"
#include "net/msg.h"

#include <string.h>

void asking_open(asking *a, void (*on_lost)(void *ctx, const err *why), void *ctx)
{
    *a = (asking){.on_lost = on_lost, .ctx = ctx};
    pthread_mutex_init(&a->lock, NULL);
    cond_open(&a->changed);
}

void asking_close(asking *a)
{
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
}

void asking_lose(asking *a, const err *why)
{
    pthread_mutex_lock(&a->lock);
    const bool first = !a->lost;
    if (first) a->why = *why;
    a->lost = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (first && a->on_lost) a->on_lost(a->ctx, why);
}

void question_expect(question *q)
{
    pthread_mutex_lock(&q->of->lock);
    q->asked = true;
    q->why = (err){0};
    progress_begin(&q->watch);
    pthread_mutex_unlock(&q->of->lock);
}

void question_fail(question *q, const peer *p, const err *why)
{
    err named = *why;
    err_of(&named, peer_name(p));
    pthread_mutex_lock(&q->of->lock);
    q->asked = false;
    q->why = named;
    pthread_cond_broadcast(&q->of->changed);
    pthread_mutex_unlock(&q->of->lock);
}

int question_ask(question *q, peer *to, uint16_t kind, const buf *message, err *e)
{
    const frame_head head = {(uint32_t)message->n, kind, 0};
    if (message->bad) return err_memory(e, "a message");
    question_expect(q);
    q->to = to;
    int rc = peer_send(to, PEER_CONTROL, &head, message->p, e);
    if (rc) err_of(e, peer_name(to));
    return rc;
}

int question_await(question *q, double seconds, err *e)
{
    asking *a = q->of;
    const double until = clock_now() + seconds;
    int rc = OK;
    bool in_time = true;
    pthread_mutex_lock(&a->lock);
    while (q->asked && !a->lost && in_time) in_time = cond_wait(&a->changed, &a->lock, until);
    if (q->asked && !a->lost) {
        rc = err_set(e, ERR_IO, "no answer within %.0f s", seconds);
        if (q->to) err_of(e, peer_name(q->to));
    } else if (q->asked) rc = err_copy(e, &a->why);
    else if (q->why.code) rc = err_copy(e, &q->why);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

/* ERR_FORMAT when nothing was asked. */
static int take_answer(void *to, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    question *q = to;
    span more;
    err why = {0};
    if (lease_answer_read(&more, span_of(payload, h->bytes), &why)) err_of(&why, peer_name(p));
    pthread_mutex_lock(&q->of->lock);
    const bool asked = q->asked;
    if (asked) {
        q->more.n = 0;
        buf_add(&q->more, more.p, why.code ? 0 : more.n);
        q->why = why;
        q->asked = false;
    }
    pthread_cond_broadcast(&q->of->changed);
    pthread_mutex_unlock(&q->of->lock);
    return asked ? OK : err_set(e, ERR_FORMAT, "an answer without a question");
}

const msg_handler on_ANSWER = {.take = take_answer};

void question_hear(question *q, const progress *said)
{
    pthread_mutex_lock(&q->of->lock);
    progress_hear(&q->watch, said);
    pthread_mutex_unlock(&q->of->lock);
}

void question_moves(question *q)
{
    pthread_mutex_lock(&q->of->lock);
    progress_begin(&q->watch);
    pthread_mutex_unlock(&q->of->lock);
}

int question_look(question *q, double busy, err *e)
{
    pthread_mutex_lock(&q->of->lock);
    const double rest = progress_rest(&q->watch), most = q->watch.last.busy ? busy : PROGRESS_IDLE;
    const bool late = q->asked && rest > most, works = q->watch.last.busy;
    pthread_mutex_unlock(&q->of->lock);
    if (!late) return OK;
    return err_set(e, ERR_IO, works ? "no progress for %.0f s: its threads stand still" : "no answer within %.0f s",
                   rest);
}

void question_lost(void *ctx, peer *p, const err *why)
{
    err named = *why;
    err_of(&named, peer_name(p));
    asking_lose(((question *)ctx)->of, &named);
}

static void *question_receiver(void *ctx, peer *p, const frame_head *h, msg_receiver kind)
{
    (void)p, (void)h;
    return kind == FOR_QUESTION ? ctx : NULL;
}

peer_use question_use(question *q)
{
    return (peer_use){.ctx = q, .receiver = question_receiver, .lost = question_lost};
}

int question_once(const address *to, const peer_self *self, uint16_t kind, const buf *message, double seconds,
                  buf *more, err *e)
{
    asking asks;
    question q = {.of = &asks};
    const peer_use use = question_use(&q);
    peer *p;
    asking_open(&asks, NULL, NULL);
    int rc = peer_dial(&p, to, self, &use, e);
    if (!rc) rc = question_ask(&q, p, kind, message, e);
    if (!rc) rc = question_await(&q, seconds, e);
    peer_close(p);
    asking_close(&asks);
    *more = q.more;
    return rc;
}

int answer_send(peer *to, uint16_t kind, uint64_t channel, const err *why, span more, err *e)
{
    buf message = {0};
    const bool written = lease_answer_write(&message, peer_protocol(to), why, more);
    const frame_head head = {(uint32_t)message.n, kind, channel};
    int sent = written ? peer_send(to, PEER_CONTROL, &head, message.p, e) : err_memory(e, "an answer");
    buf_free(&message);
    return sent;
}
