/* t_plan_pace.c - what a step costs, by hand; and devices that take as long as others would. */
#include "plan/step_cost.h"
#include "random_model.h"

static const model_shape small = {.layers = 2,
                                  .dim = 64,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .ffn = 96,
                                  .vocab = 50,
                                  .ctx = 64,
                                  .rope_dims = 16,
                                  .gated = true,
                                  .type = DTYPE_F32};
/* Of a row: q, k, v, o, three matrices of the network; the head. */
enum { LAYER = 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96, HEAD = 64 * 50, NORM = 64 };

static void counts(void **unused)
{
    (void)unused;
    program *p = random_model(&small, 3);
    const int32_t row[] = {0, 3, 4}, len[] = {3, 10}; /* a prompt of three; one more token after nine */
    const step_rows rows = {.seq_row = row, .seq_len = len};
    const step st = {.n = {[AXIS_TOK] = 4, [AXIS_OUT] = 2}, .tok = rows, .enc = rows, .n_seq = 2};
    step_cost c = {0};
    double numbers = 0;
    step_cost_add(&c, p, 0, p->n_op, &st, DTYPE_F32, DTYPE_F32);
    const double weights = 2 * (LAYER + 2 * NORM) + HEAD + NORM, seen = 3 * 3 - 3 + 10; /* of the prompt 1, 2, 3 */
    assert_true(c.weight_bytes == 4 * weights && c.int8_ops == 0);
    assert_true(step_cost_weights(p, 0, p->n_op, 1, &numbers) == 4 * weights && numbers == weights);
    assert_true(c.kv_bytes == 2 * 13 * 2 * 2 * 16 * 4.0); /* layers, positions, k and v, heads, width, bytes */
    assert_true(c.flops == 2.0 * 4 * 2 * LAYER + 2.0 * 2 * HEAD + 2 * seen * 2 * 4 * 32);
    program_free(p);
}

static void rates(void **unused)
{
    static const char *const bad[] = {"", "40", "40,", ",8", "0,8", "40,-1", "40,8,", "nan,1", "1,1e9", "a,b", "40 8"};
    (void)unused;
    pace pretended_speed;
    err e = {0};
    assert_ok(pace_parse(&pretended_speed, "2.5,500", &e), &e);
    assert_true(pretended_speed.bytes_per_s == 2.5e9 && pretended_speed.ops_per_s == 500e9);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (err){0};
        assert_int_equal(pace_parse(&pretended_speed, bad[i], &e), ERR_USAGE);
        assert_non_null(strstr(e.msg, "expected two positive numbers"));
    }
}

/* Never faster than it pretends to be, and to the same bits. */
static void slower(void **unused)
{
    static float want[8 * 50], got[8 * 50];
    static const char *const lists[] = {"cpu:1", "cpu:1;cpu:1", "cpu:1&cpu:1"};
    (void)unused;
    program *p = random_model(&small, 3);
    trace(p, &(trace_options){.threads = 1, .batch = 1, .chunk = 1}, 1, 8, want);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int reads = 0; reads < 2; reads++) {
            const double all = 8 * 2 * (double)LAYER;
            const pace pretended_speed = {reads ? 4 * all / 0.05 : 1e15, reads ? 1e15 : 2 * all / 0.05};
            double busy[2] = {0};
            trace(p,
                  &(trace_options){
                      .devices = lists[i], .batch = 1, .chunk = 1, .pretended_speed = pretended_speed, .busy = busy},
                  1, 8, got);
            assert_memory_equal(got, want, sizeof got);
            assert_true(busy[0] + busy[1] > 0.05);
        }
    program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(rates), cmocka_unit_test(slower)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
