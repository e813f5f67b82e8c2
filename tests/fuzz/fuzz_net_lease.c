/* fuzz_net_lease.c - what processes say to each other. The first byte is the number of a message (net/msg.h), the rest
 * its payload: of a LEASE behind its protocol, of an ANSWER behind the number of the question. What is read is written
 * again as it came; an empty word of a LEASE in full. A message without a check here does not compile. */
#include "net/lease_msg.h"
#include "net/msg.h"
#include "net/on_measure.h"
#include "net/progress.h"
#include "net/trial_msg.h"

#include <stdlib.h>
#include <string.h>

static buf back; /* what was written again */

static bool is_same(bool written, span s) { return written && span_eq(buf_span(&back), s); }

/* The first byte, which is taken off. */
static uint8_t take_byte(span *s)
{
    const uint8_t first = s->n ? s->p[0] : 0;
    if (s->n) *s = span_of(s->p + 1, s->n - 1);
    return first;
}

/* Those with a target of their own, or without a payload that is read. */
static bool check_elsewhere(span s, err *e)
{
    (void)s, (void)e;
    return true;
}
#define check_HELLO    check_elsewhere /* fuzz_net_hello */
#define check_PING     check_elsewhere
#define check_PROBE    check_elsewhere
#define check_DATA     check_elsewhere
#define check_TAKEN    check_elsewhere
#define check_GIVE_UP  check_elsewhere /* t_net_link */
#define check_STEP     check_elsewhere /* fuzz_net_step */
#define check_MEASURE  check_elsewhere /* an address: t_app_bench_link */
#define check_DRAINING check_elsewhere
#define check_GET      check_elsewhere /* fuzz_net_pieces */
#define check_PIECE    check_elsewhere /* fuzz_net_proof */
#define check_GET_LIST check_elsewhere
#define check_LIST     check_elsewhere /* fuzz_net_catalogue */

static bool check_PONG(span s, err *e)
{
    progress work;
    uint8_t again[PROGRESS_BYTES];
    if (progress_read(&work, s, e)) return true;
    progress_write(again, &work);
    return s.n == sizeof again && !memcmp(again, s.p, s.n);
}

static bool check_LEASE(span s, err *e)
{
    static lease_ask ask, again;
    const int protocol = take_byte(&s) % (PROTOCOL_MAX + 1);
    buf second = {0};
    if (lease_ask_read(&ask, s, protocol, e)) return true;
    const bool ok = lease_ask_write(&back, &ask, protocol) && !lease_ask_read(&again, buf_span(&back), protocol, e) &&
                    lease_ask_write(&second, &again, protocol) && is_same(true, buf_span(&second));
    buf_free(&second);
    return ok;
}

static bool check_MEMORY(span s, err *e)
{
    dtype k, v;
    return lease_types_read(&k, &v, s, e) || is_same(lease_types_write(&back, k, v), s);
}

static bool check_READY(span s, err *e)
{
    cache_options cache;
    return lease_cache_read(&cache, s, e) || is_same(lease_cache_write(&back, &cache), s);
}

static bool check_JOIN(span s, err *e)
{
    lease_join join;
    return lease_join_read(&join, s, e) || is_same(lease_join_write(&back, &join), s);
}

static bool check_TRIAL(span s, err *e)
{
    static trial_ask trial;
    return trial_ask_read(&trial, s, e) || is_same(trial_ask_write(&back, &trial), s);
}

static bool check_TEST(span s, err *e)
{
    coll_test test;
    return trial_test_read(&test, s, e) || is_same(trial_test_write(&back, &test), s);
}

static bool check_DONE(span s, err *e)
{
    span more;
    row_fault fault;
    int32_t k;
    if (lease_answer_read(&more, s, e)) return true;
    lease_seconds_read(more);
    for (size_t i = 0; lease_faults_read(more, i, &k, &fault); i++)
        if (i > more.n) return false;
    return true;
}

/* What follows a good answer to a question of this number. */
static bool check_more(uint8_t question, span more, err *e)
{
    lease_memory memory;
    link_speed speed;
    coll_score score;
    span rest = more;
    switch (question) {
    case MSG_MEMORY: return lease_memory_read(&memory, more, e) || is_same(lease_memory_write(&back, &memory), more);
    case MSG_LEASE: return lease_hashed_read(&rest), rest.n <= more.n;
    case MSG_MEASURE: return measure_read(&speed, more, e), true;
    case MSG_TEST: return trial_score_read(&score, more, e) || (trial_score_write(&back, &score) && back.n == more.n);
    default: return true;
    }
}

static bool check_ANSWER(span s, err *e)
{
    const uint8_t question = take_byte(&s);
    span more;
    if (lease_answer_read(&more, s, e)) return true;
    if (!is_same(lease_answer_write(&back, PROTOCOL_MAX, &(err){0}, more), s)) return false;
    back.n = 0;
    return check_more(question, more, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    span s = span_of(data, n);
    err e = {0};
    bool ok = true;
    back.n = 0;
    switch (take_byte(&s)) {
#define X(name, number, ...)                                                                                           \
    case number: ok = check_##name(s, &e); break;
        MSG_LIST(X)
#undef X
    default: break;
    }
    if (!ok) abort();
    for (const char *c = e.msg; *c; c++)
        if ((unsigned char)*c < 32) abort();
    return 0;
}
