/* t_sample_scan.c - passes over a row of the vocabulary: cases worked by hand, and vectors of every instruction set
 * against the definition, bit by bit, on rows of all lengths with NaN, infinities and ties. */
#include "test.h"

#include "base/fmath.h"
#include "base/rng.h"
#include "cpu/cpu.h"

enum { MOST = 5000, ROOM = 5 * SCAN_BLOCK };

typedef struct columns {
    _Alignas(64) float key[ROOM], weight[ROOM], by[ROOM], sums[ROOM / SCAN_BLOCK];
    int32_t id[ROOM];
} columns;

static void worked_by_hand(void **unused)
{
    (void)unused;
    static columns c;
    const float row[5] = {1, NAN, 3, 3, -INFINITY};
    const best_logit best = scan_reference.best(row, 5);
    assert_true(best.id == 2 && best.value == 3);
    scan_reference.take(row, 5, c.key);
    assert_true(c.key[1] == -INFINITY && c.key[2] == 3 && c.key[15] == -INFINITY);
    double sum = scan_reference.weigh(c.key, 5, 3, 0.5f, c.weight, c.sums);
    assert_true(c.key[0] == -1 && c.weight[0] == fm_exp(-1) && c.weight[2] == 1 && c.weight[4] == 0);
    assert_true(sum == (double)(2 + fm_exp(-1)) && c.sums[0] == 2 + fm_exp(-1));
    const float level[SCAN_LEVELS] = {1, 0, -0.5f, -1, -2, -3, -4, -5};
    double mass[SCAN_LEVELS];
    int64_t count[SCAN_LEVELS];
    scan_reference.above(c.key, c.weight, 5, level, mass, count);
    assert_true(count[0] == 0 && count[1] == 2 && mass[1] == 2 && count[3] == 3 && mass[3] == sum && count[7] == 3);
    for (int i = 0; i < 5; i++) c.id[i] = 10 + i;
    const scan_columns all = {c.key, c.weight, c.id};
    assert_int_equal(scan_reference.keep(c.key, 5, -2, 0, &all, &all), 1);
    assert_true(c.id[0] == 10 && c.key[0] == -1 && c.key[1] == -INFINITY && c.weight[1] == 0);
}

/* Logits with ties; now and then none, all, or NaN. */
static void fill(float *x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        const double u = rng_uniform(seed, 0, (uint64_t)i), v = rng_uniform(seed, 1, (uint64_t)i);
        x[i] = (float)(seed % 3 ? 40 * u * u * u - 20 : floor(8 * u));
        if (v < 0.01) x[i] = NAN;
        else if (v < 0.02) x[i] = -INFINITY;
    }
}

/* One row by both; what they write must be equal in every byte. */
static void compare(const scan_ops *a, const scan_ops *b, int n, uint64_t seed)
{
    static columns x, y;
    static float row[ROOM];
    fill(row, n, seed);
    memset(&x, 0x55, sizeof x);
    memset(&y, 0x55, sizeof y);
    const best_logit p = a->best(row, n), q = b->best(row, n);
    assert_true(p.id == q.id && p.value == q.value);
    if (!isfinite(p.value)) return;
    assert_true(a->take(row, n, x.key) == p.value && b->take(row, n, y.key) == p.value);
    uint64_t allowed[MOST / 64 + 1];
    for (int i = 0; i <= n / 64; i++) {
        const uint64_t r = rng_bits(seed, 4, (uint64_t)i);
        allowed[i] = r % 4 == 0 ? 0 : r % 4 == 1 ? UINT64_MAX : rng_mix(r);
    }
    memcpy(x.by, x.key, sizeof x.by);
    memcpy(y.by, x.key, sizeof y.by);
    a->mask(allowed, n, x.by);
    b->mask(allowed, n, y.by);
    assert_memory_equal(x.by, y.by, (size_t)n * sizeof(float));
    assert_true(x.by[n / 2] == (allowed[n / 2 / 64] >> n / 2 % 64 & 1 ? x.key[n / 2] : -INFINITY));
    const float scale = (float)(0.2 + 3 * rng_uniform(seed, 2, 0));
    double one = a->weigh(x.key, n, p.value, scale, x.weight, x.sums),
           other = b->weigh(y.key, n, p.value, scale, y.weight, y.sums);
    assert_true(one == other);
    one = a->sum(x.weight, x.key, n, x.sums);
    other = b->sum(y.weight, y.key, n, y.sums);
    assert_true(one == other && a->sum(x.weight, NULL, n, x.sums) == b->sum(y.weight, NULL, n, y.sums));
    a->distance(x.key, n, -2.5f, x.by);
    b->distance(y.key, n, -2.5f, y.by);
    assert_memory_equal(x.by, y.by, sizeof x.by);
    a->bends(x.weight, n > 2 ? n - 2 : 1, x.by);
    b->bends(y.weight, n > 2 ? n - 2 : 1, y.by);
    assert_memory_equal(x.by, y.by, sizeof x.by);
    float level[SCAN_LEVELS];
    double mass[2][SCAN_LEVELS];
    int64_t count[2][SCAN_LEVELS];
    for (int k = 0; k < SCAN_LEVELS; k++)
        level[k] = k == 3 ? x.key[n / 2] > -1e9f ? x.key[n / 2] : 0 : -3.0f * (float)k;
    a->above(x.key, x.weight, n, level, mass[0], count[0]);
    b->above(y.key, y.weight, n, level, mass[1], count[1]);
    assert_memory_equal(mass[0], mass[1], sizeof mass[0]);
    assert_memory_equal(count[0], count[1], sizeof count[0]);
    for (int i = 0; i < n; i++) x.id[i] = y.id[i] = i;
    const scan_columns ca = {x.key, x.weight, x.id}, cb = {y.key, y.weight, y.id};
    static columns left;
    memcpy(&left, &x, sizeof left);
    one = a->erase(x.key, n, level[2], x.key, x.weight, x.sums);
    assert_true(one == b->erase(y.key, n, level[2], y.key, y.weight, y.sums));
    assert_memory_equal(x.key, y.key, (size_t)n * sizeof(float));
    assert_memory_equal(x.weight, y.weight, (size_t)n * sizeof(float));
    memcpy(&x, &left, sizeof left);
    memcpy(&y, &left, sizeof left);
    memcpy(x.by, x.key, sizeof x.by);
    const float low = seed % 5 ? level[(n + 1) % SCAN_LEVELS] : -INFINITY, high = seed % 2 ? INFINITY : 0;
    const int64_t held = a->keep(x.by, n, low, high, &ca, &ca), same = b->keep(y.key, n, low, high, &cb, &cb);
    assert_int_equal(held, same);
    const size_t written = (size_t)((held + SCAN_LANES - 1) / SCAN_LANES * SCAN_LANES);
    assert_memory_equal(x.key, y.key, written * sizeof(float));
    assert_memory_equal(x.weight, y.weight, written * sizeof(float));
    assert_memory_equal(x.id, y.id, written * sizeof(int32_t));
}

static void every_instruction_set_equals_the_definition(void **unused)
{
    (void)unused;
    for (size_t t = 0; cpu_tables[t]; t++) {
        if (cpu_tables[t]->needs & ~cpu_features()) continue;
        for (int n = 1; n < 100; n++) compare(&scan_reference, cpu_tables[t]->scan, n, (uint64_t)n);
        for (uint64_t s = 0; s < 200; s++)
            compare(&scan_reference, cpu_tables[t]->scan, 1 + (int)(rng_bits(s, 0, 0) % MOST), s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_by_hand),
        cmocka_unit_test(every_instruction_set_equals_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
