/* on_measure.c - see on_measure.h. */
#include "net/on_measure.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/msg.h"
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

int measuring_open(measuring **out, const peer_self *self, peer *by, span payload, err *e)
{
    char text[TCP_NAME_MAX] = "";
    address to;
    *out = NULL;
    if (payload.n >= sizeof text || memchr(payload.p, 0, payload.n))
        return err_set(e, ERR_FORMAT, "a malformed address of a node");
    memcpy(text, payload.p, payload.n);
    int rc = address_parse(&to, text, false, e);
    if (rc) return rc;
    measuring *m = mem_zero(1, sizeof *m);
    if (!m) return err_set(e, ERR_MEMORY, "out of memory");
    *m = (measuring){.self = self, .by = by, .to = to};
    if (pthread_create(&m->thread, NULL, measure_and_answer, m) != 0) {
        mem_free(m);
        return err_set(e, ERR_IO, "cannot start a thread");
    }
    *out = m;
    return OK;
}

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
