/* on_measure.c - see on_measure.h. */
#include "net/on_measure.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/node_state.h"
#include "net/question.h"

#include <pthread.h>
#include <string.h>

struct measuring {
    const peer_self *self;
    peer *by;
    address to;
    pthread_t thread;
};

/* Whoever has the key may name any address. So that he learns nothing of ports that are no nodes, all that goes wrong
 * has the same answer after the same time; why is in the log here. */
#define FAILS_AFTER 5.5
#define ANSWERS_IN  12.0 /* seconds, of a node that dials another, measures, and answers */

static int hide_failure(const measuring *m, double from, err *e)
{
    char name[TCP_NAME_MAX];
    const double left = from + FAILS_AFTER - clock_now();
    const struct timespec rest = clock_timespec(left > 0 ? left : 0);
    log_line(LOG_WARN, "%s asked for a measurement: %s", peer_name(m->by), e->msg);
    nanosleep(&rest, NULL);
    address_print(&m->to, name);
    *e = (err){0};
    err_set(e, ERR_IO, "cannot be measured from there; the log there says why");
    return err_of(e, name);
}

static void *measure_and_answer(void *arg)
{
    measuring *m = arg;
    link_speed speed = {0};
    buf more = {0};
    err e = {0};
    const double from = clock_now();
    int rc = link_measure(&speed, NULL, &m->to, m->self, &e);
    if (rc) rc = hide_failure(m, from, &e);
    const double numbers[] = {speed.rtt_p50, speed.rtt_p99, speed.bytes_per_s};
    for (int i = 0; i < 3; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        buf_uint(&more, bits, 8);
    }
    answer_send(m->by, MSG_ANSWER, 0, &e, buf_span(&more), NULL);
    buf_free(&more);
    return NULL;
}

static int begin_measuring(visitor *g, span payload, err *e)
{
    char text[TCP_NAME_MAX] = "";
    address to;
    if (payload.n >= sizeof text || memchr(payload.p, 0, payload.n))
        return err_set(e, ERR_FORMAT, "a malformed address of a node");
    memcpy(text, payload.p, payload.n);
    int rc = address_parse(&to, text, false, e);
    if (rc) return rc;
    measuring *m = mem_zero(1, sizeof *m);
    if (!m) return err_memory(e, NULL);
    *m = (measuring){.self = &g->of->self, .by = g->p, .to = to};
    if (pthread_create(&m->thread, NULL, measure_and_answer, m) != 0) {
        mem_free(m);
        return err_set(e, ERR_IO, "cannot start a thread");
    }
    g->measures = m;
    return OK;
}

static int admit_measure(void *to, peer *from, const frame_head *h, uint8_t **room, err *e)
{
    if (((visitor *)to)->measures) return err_set(e, ERR_FORMAT, "it asks for another measurement");
    return visitor_admit(to, from, h, room, e);
}

static int take_measure(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)from;
    return visitor_settle(to, begin_measuring(to, span_of(payload, h->bytes), e), e);
}

const msg_handler on_MEASURE = {admit_measure, take_measure};

void measuring_close(measuring *m)
{
    if (!m) return;
    pthread_join(m->thread, NULL);
    mem_free(m);
}

int measure_read(link_speed *out, span answer, err *e)
{
    double *const to[] = {&out->rtt_p50, &out->rtt_p99, &out->bytes_per_s};
    cursor c = cursor_of(answer);
    for (int i = 0; i < 3; i++) {
        const uint64_t bits = cursor_u64(&c);
        memcpy(to[i], &bits, sizeof bits);
        if (!(*to[i] >= 0 && *to[i] < 1e15)) c.bad = true;
    }
    return c.bad || cursor_left(&c) ? err_set(e, ERR_FORMAT, "its answer is malformed") : OK;
}

int measure_ask(link_speed *out, const address *of, const address *to, const peer_self *self, err *e)
{
    char name[TCP_NAME_MAX];
    buf message = {0}, answer = {0};
    address_print(to, name);
    buf_str(&message, name);
    int rc = question_once(of, self, MSG_MEASURE, &message, ANSWERS_IN, &answer, e);
    if (!rc && (rc = measure_read(out, buf_span(&answer), e))) {
        address_print(of, name);
        err_of(e, name);
    }
    buf_free(&message);
    buf_free(&answer);
    return rc;
}
