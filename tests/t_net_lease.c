/* t_net_lease.c - messages about leases: they come back as written; every message that is cut short, longer, or beyond
 * its limits is refused; texts of others are shown without what steers a terminal. */
#include "net/lease_msg.h"
#include "net/msg.h"
#include "net/on_measure.h"
#include "net/trial_msg.h"

#include "comm/coll_choose.h"
#include "test.h"

#include <math.h>

static lease_ask ask_of_test(int protocol)
{
    lease_ask a = {.rank = 1,
                   .ranks = 3,
                   .ctx = 4096,
                   .sequences = 16,
                   .max_rows = {0, 512, 64, 0, 1024, 16},
                   .choices = {.act_f32 = true,
                               .reduce = REDUCE_INT6,
                               .collective = COLLECTIVE_RING,
                               .wire = WIRE_INT8,
                               .experts = EXPERTS_WHOLE,
                               .ends = ENDS_AWAY,
                               .codec_group = 128,
                               .in_flight = 4},
                   .devices = span_str("a:7071/cpu&b:7071/cpu*3;cpu"),
                   .weights = span_str("q4"),
                   .model_spec = span_str("[model]\nbase = llama\n")};
    if (protocol < PROTOCOL_LISTS) a.flat = span_of("tensors\0", 9);
    else a.list_bytes = 12345, memset(a.list, 7, sizeof a.list);
    if (protocol >= PROTOCOL_SHARED) {
        a.k_type = DTYPE_F16, a.v_type = DTYPE_Q8_B64;
        a.meets[0] = a.meets[2] = true; /* the first is the leader's */
        a.node[1] = span_str("b:7071"), a.node[2] = span_str("[::1]:7072");
    }
    memset(a.identity, 9, sizeof a.identity);
    for (int r = 0; r < 3; r++) memset(a.token[r], 20 + r, LEASE_TOKEN);
    return a;
}

static void ask_comes_back(int protocol)
{
    const lease_ask a = ask_of_test(protocol);
    lease_ask b;
    buf m = {0};
    err e = {0};
    assert_true(lease_ask_write(&m, &a, protocol));
    assert_ok(lease_ask_read(&b, buf_span(&m), protocol, &e), &e);
    const span *x = &a.devices;
    span *y = &b.devices;
    for (int i = 0; i < 4; i++) { /* texts lie one after another */
        assert_true(span_eq(x[i], y[i]));
        y[i] = x[i];
    }
    for (int r = 0; r < 3; r++) {
        assert_true(span_eq(a.node[r], b.node[r]));
        b.node[r] = a.node[r];
    }
    assert_memory_equal(&a, &b, sizeof a);
    for (size_t n = 0; n < m.n; n++) {
        err cut = {0};
        assert_int_equal(lease_ask_read(&b, span_of(m.p, n), protocol, &cut), ERR_FORMAT);
    }
    buf_byte(&m, 0);
    assert_int_equal(lease_ask_read(&b, buf_span(&m), protocol, &e), ERR_FORMAT);
    buf_free(&m);
}

static void asks_come_back(void **unused)
{
    (void)unused;
    for (int protocol = PROTOCOL_MIN; protocol <= PROTOCOL_MAX; protocol++) ask_comes_back(protocol);
}

static void impossible_asks_are_refused(void **unused)
{
    (void)unused;
    for (int fault = 0; fault < 11; fault++) {
        lease_ask a = ask_of_test(PROTOCOL_MAX), b;
        buf m = {0};
        err e = {0};
        switch (fault) {
        case 1: a.rank = 3; break;
        case 2: a.rank = -1; break;
        case 3: a.ctx = 0; break;
        case 4: a.choices.in_flight = 0; break;
        case 5: a.sequences = -5; break;
        case 6: a.max_rows[AXIS_TOK] = INT32_MAX; break;
        case 7: a.devices = span_of("a\0b", 3); break;
        case 8: a.model_spec.n = 0; break;
        case 9: a.choices.in_flight = 1 << 20; break;
        case 10: a.ctx = INT32_MAX; break;
        }
        assert_true(lease_ask_write(&m, &a, PROTOCOL_MAX));
        assert_int_equal(lease_ask_read(&b, buf_span(&m), PROTOCOL_MAX, &e), fault ? ERR_FORMAT : OK);
        buf_free(&m);
    }
    lease_ask a = ask_of_test(PROTOCOL_MAX), b;
    buf m = {0};
    err e = {0};
    assert_true(lease_ask_write(&m, &a, PROTOCOL_MAX));
    m.p[SHA256_BYTES + 4] = LINK_RANKS_MAX + 1; /* more ranks than tokens have room */
    assert_int_equal(lease_ask_read(&b, buf_span(&m), PROTOCOL_MAX, &e), ERR_FORMAT);
    buf_free(&m);
}

/* Bytes of a LEASE from elsewhere: those of the second text, which is no longer, stand in place of the first. */
static int read_changed(lease_ask *to, const char *text, const char *other, err *e)
{
    const lease_ask a = ask_of_test(PROTOCOL_MAX);
    const size_t n = strlen(text), m = strlen(other);
    buf whole = {0}, b = {0};
    size_t at = SHA256_BYTES;
    assert_true(lease_ask_write(&whole, &a, PROTOCOL_MAX));
    while (memcmp(whole.p + at, text, n) || whole.p[at - 4] != n) at++;
    buf_add(&b, whole.p, at - 4);
    buf_uint(&b, m, 4);
    buf_add(&b, other, m);
    buf_add(&b, whole.p + at + n, whole.n - at - n);
    const int rc = lease_ask_read(to, buf_span(&b), PROTOCOL_MAX, e);
    to->devices = to->weights = to->model_spec = (span){0};
    buf_free(&whole);
    buf_free(&b);
    return rc;
}

/* Choices that this build does not have are told by name, not as a malformed message; an empty word is the default. */
static void choices_of_other_builds(void **unused)
{
    (void)unused;
    static const char *const cases[][3] = {
        {"int6", "int5", "--reduce int5: there are exact, f32, f16, int8, int6, int4"},
        {"ring", "tree", "--collective tree: there are auto, two_step, one_shot, ring"},
        {"int8", "f8", "--wire f8: there are f32, f16, int8, int4"}};
    lease_ask a;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err e = {0};
        assert_int_equal(read_changed(&a, cases[i][0], cases[i][1], &e), ERR_USAGE);
        assert_string_equal(e.msg, cases[i][2]);
        e = (err){0};
        assert_ok(read_changed(&a, cases[i][0], "", &e), &e);
        assert_true(a.choices.reduce == (i == 0 ? REDUCE_EXACT : REDUCE_INT6));
        assert_true(a.choices.collective == (i == 1 ? COLLECTIVE_AUTO : COLLECTIVE_RING));
        assert_true(a.choices.wire == (i == 2 ? WIRE_F32 : WIRE_INT8));
        assert_true(a.choices.experts == EXPERTS_WHOLE && a.choices.ends == ENDS_AWAY && a.choices.act_f32);
    }
}

static void smaller_messages_come_back(void **unused)
{
    (void)unused;
    buf m = {0};
    err e = {0};
    dtype k, v;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) {
        m.n = 0;
        assert_true(lease_types_write(&m, (dtype)t, DTYPE_F16));
        assert_ok(lease_types_read(&k, &v, buf_span(&m), &e), &e);
        assert_int_equal(k, t);
        assert_int_equal(v, DTYPE_F16);
    }
    m.n = 0;
    lease_memory a = {{1, 2, 3, UINT64_MAX}, 5, 6}, b;
    assert_true(lease_memory_write(&m, &a));
    assert_ok(lease_memory_read(&b, buf_span(&m), &e), &e);
    assert_memory_equal(&a, &b, sizeof a);
    m.n = 0;
    cache_options c = {.n_page = {7, 8, 9, 10}, .n_slot = 11, .k_type = DTYPE_I16, .v_type = DTYPE_Q8_B64}, d;
    assert_true(lease_cache_write(&m, &c));
    assert_ok(lease_cache_read(&d, buf_span(&m), &e), &e);
    assert_memory_equal(c.n_page, d.n_page, sizeof c.n_page);
    assert_true(d.n_slot == 11 && d.k_type == DTYPE_I16 && d.v_type == DTYPE_Q8_B64);
    assert_int_equal(d.slot_rows, 0); /* as versions before have it */
    m.n = 0;
    c.slot_rows = SLOT_ROWS_MAX;
    assert_true(lease_cache_write(&m, &c));
    assert_ok(lease_cache_read(&d, buf_span(&m), &e), &e);
    assert_int_equal(d.slot_rows, SLOT_ROWS_MAX);
    m.p[m.n - 1] = SLOT_ROWS_MAX + 1;
    assert_int_equal(lease_cache_read(&d, buf_span(&m), &e), ERR_FORMAT);
    m.p[3] = 0xff; /* pages below 0 */
    assert_int_equal(lease_cache_read(&d, buf_span(&m), &e), ERR_FORMAT);
    m.n = 0;
    lease_join i = {.from = 5}, j;
    memset(i.token, 77, sizeof i.token);
    assert_true(lease_join_write(&m, &i));
    e = (err){0};
    assert_ok(lease_join_read(&j, buf_span(&m), &e), &e);
    assert_memory_equal(&i, &j, sizeof i);
    m.p[0] = LINK_RANKS_MAX;
    assert_int_equal(lease_join_read(&j, buf_span(&m), &e), ERR_FORMAT);
    buf_free(&m);
}

static void answers_say_why(void **unused)
{
    (void)unused;
    buf m = {0};
    err e = {0};
    const err none = {0};
    err why = {0};
    span more;
    assert_true(lease_answer_write(&m, PROTOCOL_MAX, &none, span_str("xyz")));
    assert_ok(lease_answer_read(&more, buf_span(&m), &e), &e);
    assert_true(span_is(more, "xyz"));
    m.n = 0;
    err_set(&why, ERR_NOT_FOUND, "no");
    snprintf(why.msg, sizeof why.msg, "no\x1b[31m\ncopy");
    err_also(&why, "b:1\n");
    for (uint32_t protocol = PROTOCOL_NAMES - 1; protocol <= PROTOCOL_NAMES; protocol++) { /* who is new there */
        m.n = 0;
        e = (err){0};
        assert_true(lease_answer_write(&m, protocol, &why, (span){0}));
        assert_int_equal(lease_answer_read(&more, buf_span(&m), &e), ERR_NOT_FOUND);
        assert_string_equal(e.msg, "no?[31m?copy");
        assert_string_equal(e.who, protocol < PROTOCOL_NAMES ? "" : "b:1?");
    }
    m.p[3] = 0; /* no error is above 0 */
    e = (err){0};
    assert_int_equal(lease_answer_read(&more, buf_span(&m), &e), ERR_FORMAT);
    m.n = 3;
    e = (err){0};
    assert_int_equal(lease_answer_read(&more, buf_span(&m), &e), ERR_FORMAT);
    buf_free(&m);
}

static void measures_are_numbers(void **unused)
{
    (void)unused;
    const double good[] = {1e-3, 2e-3, 1e9}, bad[] = {1e-3, NAN, 1e9}, less[] = {-1, 2, 3};
    link_speed s;
    err e = {0};
    assert_ok(measure_read(&s, span_of(good, sizeof good), &e), &e);
    assert_true(s.rtt_p50 == 1e-3 && s.rtt_p99 == 2e-3 && s.bytes_per_s == 1e9);
    assert_int_equal(measure_read(&s, span_of(bad, sizeof bad), &e), ERR_FORMAT);
    assert_int_equal(measure_read(&s, span_of(less, sizeof less), &e), ERR_FORMAT);
    assert_int_equal(measure_read(&s, span_of(good, sizeof good - 1), &e), ERR_FORMAT);
}

static void trials_come_back(void **unused)
{
    (void)unused;
    trial_ask a = {.rank = 1, .ranks = 2, .bytes = 1 << 20, .devices = span_str("cpu&a:7071/cpu")}, b;
    const coll_test t = {.kind = coll_named(span_str("ring")),
                         .codec = *coll_codec_named(span_str("int6")),
                         .rows = 3,
                         .cols = 4096,
                         .group = 128,
                         .reps = 5,
                         .seed = 9};
    const coll_score score = {
        .seconds = 1, .seconds_min = 0.5, .seconds_max = 2, .payload = 7, .error = 0.1, .hash = 5, .equal = true};
    coll_test u;
    coll_score x;
    buf m = {0};
    err e = {0};
    memset(a.token[1], 4, LEASE_TOKEN);
    assert_true(trial_ask_write(&m, &a));
    assert_ok(trial_ask_read(&b, buf_span(&m), &e), &e);
    assert_true(span_eq(a.devices, b.devices));
    b.devices = a.devices;
    assert_memory_equal(&a, &b, sizeof a);
    m.p[0] = 2; /* of two ranks */
    assert_int_equal(trial_ask_read(&b, buf_span(&m), &e), ERR_FORMAT);
    m.p[0] = 0;
    assert_int_equal(trial_ask_read(&b, span_of(m.p, 48), &e), ERR_FORMAT);
    m.n = 0;
    assert_true(trial_test_write(&m, &t));
    assert_ok(trial_test_read(&u, buf_span(&m), &e), &e);
    assert_memory_equal(&t, &u, sizeof t);
    for (size_t n = 0; n < m.n; n++) assert_int_equal(trial_test_read(&u, span_of(m.p, n), &e), ERR_FORMAT);
    m.p[5] = 0;
    m.p[6] = m.p[2] = 1; /* 65539 rows of 65536 */
    assert_int_equal(trial_test_read(&u, buf_span(&m), &e), ERR_FORMAT);
    m.p[6] = m.p[2] = 0;
    m.p[5] = 16;
    m.p[12] = 0; /* no repetition */
    assert_int_equal(trial_test_read(&u, buf_span(&m), &e), ERR_FORMAT);
    m.n = 0;
    assert_true(trial_score_write(&m, &score));
    assert_ok(trial_score_read(&x, buf_span(&m), &e), &e);
    assert_memory_equal(&score, &x, offsetof(coll_score, equal));
    assert_true(x.equal);
    m.p[7] = 0xff; /* a negative time */
    assert_int_equal(trial_score_read(&x, buf_span(&m), &e), ERR_FORMAT);
    buf_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_come_back),          cmocka_unit_test(impossible_asks_are_refused),
        cmocka_unit_test(choices_of_other_builds), cmocka_unit_test(smaller_messages_come_back),
        cmocka_unit_test(answers_say_why),         cmocka_unit_test(measures_are_numbers),
        cmocka_unit_test(trials_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
