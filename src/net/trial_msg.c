/* trial_msg.c - see trial_msg.h. All numbers are little-endian; floats are sent as their bits. */
#include "net/trial_msg.h"

#include "comm/coll_choose.h"

#include <string.h>

enum { ROWS_MOST = 1 << 20, REPS_MOST = 1000 };
static const int64_t elements_most = (int64_t)1 << 31;

static int check_end(const cursor *c, const char *what, err *e)
{
    return c->bad || cursor_left(c) ? err_set(e, ERR_FORMAT, "its %s is malformed", what) : OK;
}

/* A number from `least` to `most`. */
static int64_t read_number(cursor *c, int64_t least, int64_t most)
{
    const int64_t n = cursor_u32(c);
    if (n < least || n > most) c->bad = true;
    return c->bad ? 0 : n;
}

bool trial_ask_write(buf *out, const trial_ask *a)
{
    buf_uint(out, (uint32_t)a->rank, 4);
    buf_uint(out, (uint32_t)a->ranks, 4);
    buf_uint(out, a->bytes, 8);
    buf_add(out, a->token, (size_t)a->ranks * LEASE_TOKEN);
    return buf_add(out, a->devices.p, a->devices.n);
}

int trial_ask_read(trial_ask *a, span payload, err *e)
{
    cursor c = cursor_of(payload);
    *a = (trial_ask){0};
    a->rank = (int32_t)read_number(&c, 0, LINK_RANKS_MAX - 1);
    a->ranks = (int32_t)read_number(&c, a->rank + 1, LINK_RANKS_MAX);
    a->bytes = cursor_u64(&c);
    const span tokens = cursor_take(&c, (uint64_t)a->ranks * LEASE_TOKEN);
    if (!c.bad) memcpy(a->token, tokens.p, tokens.n);
    a->devices = cursor_take(&c, cursor_left(&c));
    if (!a->devices.n || memchr(a->devices.p, 0, a->devices.n)) c.bad = true;
    return check_end(&c, "request for a trial", e);
}

bool trial_test_write(buf *out, const coll_test *t)
{
    const int64_t numbers[] = {t->rows, t->cols, t->group, t->reps};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) buf_uint(out, (uint64_t)numbers[i], 4);
    buf_uint(out, t->seed, 8);
    buf_str(out, t->kind->name);
    buf_byte(out, ' ');
    return buf_str(out, t->codec.name);
}

int trial_test_read(coll_test *t, span payload, err *e)
{
    cursor c = cursor_of(payload);
    *t = (coll_test){.rows = read_number(&c, 1, ROWS_MOST)};
    t->cols = read_number(&c, 1, elements_most);
    t->group = read_number(&c, WIRE_GROUP_MIN, WIRE_GROUP_MAX);
    t->reps = read_number(&c, 1, REPS_MOST);
    t->seed = cursor_u64(&c);
    const span names = cursor_take(&c, cursor_left(&c));
    const uint8_t *blank = names.n ? memchr(names.p, ' ', names.n) : NULL;
    const size_t n = blank ? (size_t)(blank - names.p) : 0;
    const wire_pair *codec = blank ? coll_codec_named(span_of(blank + 1, names.n - n - 1)) : NULL;
    t->kind = coll_named(span_of(names.p, n));
    if (codec) t->codec = *codec;
    if (!t->kind || !codec || t->rows * t->cols > elements_most) c.bad = true;
    return check_end(&c, "test of a collective", e);
}

bool trial_score_write(buf *out, const coll_score *x)
{
    const double all[] = {x->seconds, x->seconds_min, x->seconds_max, x->payload, x->sockets, x->error};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint64_t bits;
        memcpy(&bits, &all[i], sizeof bits);
        buf_uint(out, bits, 8);
    }
    buf_uint(out, x->hash, 8);
    return buf_byte(out, x->equal);
}

int trial_score_read(coll_score *x, span payload, err *e)
{
    double *const to[] = {&x->seconds, &x->seconds_min, &x->seconds_max, &x->payload, &x->sockets, &x->error};
    cursor c = cursor_of(payload);
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        const uint64_t bits = cursor_u64(&c);
        memcpy(to[i], &bits, sizeof bits);
        if (!(*to[i] >= 0 && *to[i] < 1e30)) c.bad = true;
    }
    x->hash = cursor_u64(&c);
    x->equal = cursor_u8(&c);
    return check_end(&c, "score", e);
}
