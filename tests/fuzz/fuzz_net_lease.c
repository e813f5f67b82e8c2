/* fuzz_net_lease.c - what a leader and a node say about a lease or a trial; the first byte chooses. What is read is
 * written again as it came; an empty word of a LEASE in full. */
#include "net/lease_msg.h"
#include "net/on_measure.h"
#include "net/progress.h"
#include "net/trial_msg.h"

#include <stdlib.h>
#include <string.h>

static bool same(const buf *b, span s) { return !b->bad && span_eq(buf_span(b), s); }

/* What is written is read, and written again as it is. */
static bool comes_back(const lease_ask *a, int protocol)
{
    static lease_ask again;
    buf first = {0}, second = {0};
    err e = {0};
    const bool ok = lease_ask_write(&first, a, protocol) && !lease_ask_read(&again, buf_span(&first), protocol, &e) &&
                    lease_ask_write(&second, &again, protocol) && same(&second, buf_span(&first));
    buf_free(&first);
    buf_free(&second);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static lease_ask ask;
    static trial_ask trial;
    if (n < 1) return 0;
    const span s = span_of(data + 1, n - 1);
    buf back = {0};
    dtype k, v;
    lease_memory memory;
    cache_options cache;
    lease_join join;
    link_speed speed;
    coll_test test;
    coll_score score;
    span more;
    bool ok = true;
    err e = {0};
    const int protocol = data[0] / 11 % 2 ? 2 : 3;
    switch (data[0] % 11) {
    case 0:
        if (!lease_ask_read(&ask, s, protocol, &e)) ok = comes_back(&ask, protocol);
        break;
    case 1:
        if (!lease_types_read(&k, &v, s, &e)) ok = lease_types_write(&back, k, v) && same(&back, s);
        break;
    case 2:
        if (!lease_memory_read(&memory, s, &e)) ok = lease_memory_write(&back, &memory) && same(&back, s);
        break;
    case 3:
        if (!lease_cache_read(&cache, s, &e)) ok = lease_cache_write(&back, &cache) && same(&back, s);
        break;
    case 4:
        if (!lease_join_read(&join, s, &e)) ok = lease_join_write(&back, &join) && same(&back, s);
        break;
    case 5:
        if (!lease_answer_read(&more, s, &e))
            ok = lease_answer_write(&back, PROTOCOL_MAX, &(err){0}, more) && same(&back, s);
        break;
    case 6: measure_read(&speed, s, &e); break;
    case 7:
        if (!trial_ask_read(&trial, s, &e)) ok = trial_ask_write(&back, &trial) && same(&back, s);
        break;
    case 8:
        if (!trial_test_read(&test, s, &e)) ok = trial_test_write(&back, &test) && same(&back, s);
        break;
    case 9:
        if (!trial_score_read(&score, s, &e)) ok = trial_score_write(&back, &score) && back.n == s.n;
        break;
    case 10: {
        progress work;
        uint8_t again[PROGRESS_BYTES];
        if (progress_read(&work, s, &e)) break;
        progress_write(again, &work);
        ok = s.n == sizeof again && !memcmp(again, s.p, s.n);
        break;
    }
    }
    if (!ok) abort();
    for (const char *c = e.msg; *c; c++)
        if ((unsigned char)*c < 32) abort();
    buf_free(&back);
    return 0;
}
