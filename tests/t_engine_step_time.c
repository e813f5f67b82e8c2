/* t_engine_step_time.c - the prediction of a step's time: a line is found again from steps that lie on it, also with
 * noise and after it has changed; what does not vary is not taken for a cost of rows; rows that fit are as predicted.
 * */
#include "engine/step_time.h"
#include "test.h"

#include "base/rng.h"

#include <math.h>

typedef struct one_step {
    int32_t row[3], len[2];
    step st;
} one_step;

/* `n` single rows after `depth` positions as one sequence, and a prompt of `rows` rows that ends at `len`. */
static const step *step_of(one_step *o, int n, int depth, int rows, int len)
{
    *o = (one_step){.row = {0, n, n + rows}, .len = {depth + n, len}};
    o->st = (step){.tok = {.seq_row = o->row, .seq_len = o->len}, .n_seq = 2, .n = {[AXIS_TOK] = n + rows}};
    return &o->st;
}

static double line(const step *st, double base, double row, double seen)
{
    double all = 0;
    for (int i = 0; i < 2; i++) {
        const double n = st->tok.seq_row[i + 1] - st->tok.seq_row[i];
        all += n * (st->tok.seq_len[i] - n / 2);
    }
    return base + row * st->n[AXIS_TOK] + seen * all;
}

static void check_line(step_time *t, double base, double row, double seen, double noise)
{
    one_step o;
    for (int i = 0; i < 400; i++) {
        const uint64_t a = rng_bits(1, 2, (uint64_t)i), b = rng_bits(1, 3, (uint64_t)i);
        const step *st = step_of(&o, 1 + (int)(a % 8), 500, (int)(b % 3 ? b % 90 : 0), 100 + (int)(a % 1500));
        const double by = 1 + noise * (2 * rng_uniform(1, 4, (uint64_t)i) - 1);
        step_time_learn(t, st, by * line(st, base, row, seen));
    }
    for (int i = 0; i < 20; i++) {
        const step *st = step_of(&o, 3, 500, 5 * i, 1000);
        const double want = line(st, base, row, seen), got = step_time_predict(t, st);
        if (fabs(got - want) > (noise > 0 ? 0.1 : 0.01) * want) fail_msg("%g predicted, %g taken", got, want);
    }
    for (int most = 1; most < 300; most += 37) {
        const int64_t n = step_time_fit(t, 20 * row, 700, most);
        assert_true(n <= most && n <= 21 && step_time_rows(t, n, 700) <= 20 * row * 1.0001);
        assert_true(n == most || step_time_rows(t, n + 1, 700) > 20 * row * 0.9999);
    }
}

static void lines_are_found(void **unused)
{
    (void)unused;
    step_time t = {.n = 0};
    one_step o;
    assert_true(step_time_predict(&t, step_of(&o, 1, 1, 1, 1)) == 0);
    check_line(&t, 3e-3, 1e-3, 2e-7, 0);
    check_line(&t, 50e-3, 3e-3, 1e-6, 0); /* another program takes half of the machine from now on */
    check_line(&t, 1e-4, 2e-5, 0, 0);
    t = (step_time){.n = 0};
    check_line(&t, 3e-3, 1e-3, 2e-7, 0.2);
}

/* Eight sequences generate for a long time: then no prompt of a hundred rows may be thought to cost nothing. */
static void what_does_not_vary(void **unused)
{
    (void)unused;
    step_time t = {.n = 0};
    one_step o;
    for (int i = 0; i < 300; i++) step_time_learn(&t, step_of(&o, 8, 100, 0, 0), 4e-3);
    assert_true(fabs(step_time_predict(&t, step_of(&o, 8, 100, 0, 0)) - 4e-3) < 1e-4);
    assert_true(step_time_fit(&t, 6e-3, 0, 1000) < 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_found), cmocka_unit_test(what_does_not_vary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
