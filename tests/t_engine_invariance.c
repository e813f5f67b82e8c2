/* t_engine_invariance.c - the logits of a token are the same bits whatever shares its step: batch, chunk, threads,
 * instruction set, cut. */
#include "cpu/cpu.h"
#include "models/model.h"
#include "random_model.h"

enum { LENGTH = 70, SEQS = 16, ISAS = 3 };

static const model_shape shapes[] = {
    {.layers = 3,
     .dim = 40,
     .heads = 6,
     .kv_heads = 2,
     .head_dim = 12,
     .ffn = 72,
     .vocab = 61,
     .ctx = 256,
     .rope_dims = 12,
     .gated = true,
     .type = DTYPE_F32},
    {.layers = 2,
     .dim = 52,
     .heads = 4,
     .kv_heads = 4,
     .head_dim = 14,
     .ffn = 50,
     .vocab = 43,
     .ctx = 256,
     .norm = NORM_LAYER,
     .bias = BIAS_ALIBI,
     .biases = true,
     .type = DTYPE_F16},
    {.layers = 4,
     .dim = 32,
     .heads = 8,
     .kv_heads = 1,
     .head_dim = 20,
     .ffn = 48,
     .vocab = 37,
     .ctx = 256,
     .window = 33,
     .rope_dims = 10,
     .rope_style = ROPE_NEIGHBOURS,
     .parallel = true,
     .gated = true,
     .qk_norm = true,
     .softcap = 3,
     .final_cap = 5,
     .type = DTYPE_BF16},
    {.layers = 2,
     .dim = 24,
     .heads = 3,
     .kv_heads = 1,
     .head_dim = 8,
     .ffn = 100,
     .vocab = 129,
     .ctx = 256,
     .norm = NORM_LAYER,
     .biases = true,
     .learned = true,
     .type = DTYPE_F32},
    {.layers = 6,
     .dim = 44,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 12,
     .ffn = 60,
     .vocab = 41,
     .ctx = 256,
     .taps = 4,
     .rope_dims = 12,
     .gated = true,
     .biases = true,
     .type = DTYPE_BF16},
#define RECURS(kind, width)                                                                                            \
    {                                                                                                                  \
        .layers = 3, .dim = 44, .heads = 4, .kv_heads = 2, .head_dim = width, .ffn = 60, .vocab = 41, .ctx = 256,      \
        .recur = kind, .rope_dims = 12, .gated = true, .biases = true, .type = DTYPE_F32                               \
    }
    RECURS(RECURS_GROUPED, 12),
    RECURS(RECURS_GROUPED, 32),
    RECURS(RECURS_TILED, 32),
    RECURS(RECURS_ONE_KEY, 48),
    RECURS(RECURS_BY_ROWS, 16),
    RECURS(RECURS_BY_COLUMNS, 14),
};

static float *collect(program *p, const trace_options *t)
{
    float *logits = mem_zero((size_t)SEQS * LENGTH * (size_t)p->vocab, sizeof *logits);
    trace(p, t, SEQS, LENGTH, logits);
    return logits;
}

static void same(const program *p, const float *a, float *b, const char *what)
{
    size_t n = (size_t)SEQS * LENGTH * (size_t)p->vocab;
    if (memcmp(a, b, n * sizeof *a)) {
        size_t i = 0;
        while (float_bits(a[i]) == float_bits(b[i])) i++;
        size_t row = i / (size_t)p->vocab;
        fail_msg("%s: sequence %zu, position %zu, token %zu: %.9g and %.9g", what, row / LENGTH, row % LENGTH,
                 i % (size_t)p->vocab, (double)a[i], (double)b[i]);
    }
    mem_free(b);
}

/* Every instruction set against the C reference, and on each: batches, chunks, threads, devices. C is slow: it is tried
 * in two other ways. */
static void check(const model_shape *m, dtype kv)
{
#if defined(__aarch64__)
    static const char *const isa[ISAS] = {"c", "neon", "dotprod"};
#else
    static const char *const isa[ISAS] = {"c", "avx2", "avx512"}; /* avxvnni: t_cpu_packed */
#endif
    static const int batch[] = {1, 16, 7, 2}, chunk[] = {1, 5, 64};
    err e = {0};
    program *p = random_model(m, 42);
    trace_options base = {.isa = "c", .threads = 1, .batch = 1, .chunk = 64, .kv = kv};
    float *want = collect(p, &base);
    float low = want[0], high = want[0];
    for (size_t i = 0; i < (size_t)SEQS * LENGTH * (size_t)p->vocab; i++) {
        assert_true(isfinite(want[i]));
        low = want[i] < low ? want[i] : low;
        high = want[i] > high ? want[i] : high;
    }
    assert_true(high - low > 1); /* the model says something */
    for (int k = 0; k < ISAS; k++) {
        static const bool none[200];
        weight_set *d;
        assert_true(p->n_weight <= sizeof none);
        if (cpu_backend.weights_open(&d, p, none, &(weight_options){.number = 1, .own = &(cpu_options){.isa = isa[k]}},
                                     &e)) {
            skip_msg("instruction set %s is not here", isa[k]);
            e = (err){0};
            continue;
        }
        cpu_backend.weights_close(d);
        const bool slow = k == 0;
        for (int i = slow; i < (slow ? 3 : 4); i++) { /* every batch, chunk and number of threads, paired */
            trace_options o = {.isa = isa[k], .threads = 2 - i % 2, .batch = batch[i], .chunk = chunk[i % 3], .kv = kv};
            char what[96];
            snprintf(what, sizeof what, "%s, %d threads, batch %d, chunk %d", isa[k], o.threads, o.batch, o.chunk);
            same(p, want, collect(p, &o), what);
        }
        if (slow) continue;
        trace_options o = {
            .devices = m->layers > 2 ? "cpu*3;cpu:1" : "cpu:2;cpu:1", .isa = isa[k], .batch = 7, .chunk = 64, .kv = kv};
        same(p, want, collect(p, &o), o.devices);
    }
    mem_free((void *)want);
    program_free(p);
}

static void rotary_f32(void **unused) { (void)unused, check(&shapes[0], DTYPE_F32); }
static void alibi_f16(void **unused) { (void)unused, check(&shapes[1], DTYPE_F16); }
static void windows_bf16(void **unused) { (void)unused, check(&shapes[2], DTYPE_F16); }
static void learned_f32(void **unused) { (void)unused, check(&shapes[3], DTYPE_F32); }
static void convolutions_bf16(void **unused) { (void)unused, check(&shapes[4], DTYPE_F32); }

/* Caches of codes: queries and weights become codes too, by the same blocks whatever shares the step. */
static void recurrences(void **unused)
{
    (void)unused;
    for (size_t i = 5; i < sizeof shapes / sizeof *shapes; i++) check(&shapes[i], DTYPE_F32);
}
static void rotary_q8(void **unused) { (void)unused, check(&shapes[0], DTYPE_Q8_B64); }
static void windows_q4(void **unused) { (void)unused, check(&shapes[2], DTYPE_Q4_B32); }
static void alibi_i16(void **unused) { (void)unused, check(&shapes[1], DTYPE_I16); }
static void windows_i16(void **unused) { (void)unused, check(&shapes[2], DTYPE_I16); }

/* A step writes no slot and no position that it reads. */
static void steps_can_be_done_twice(void **unused)
{
    (void)unused;
    trace_options o = {.threads = 2, .batch = 7, .chunk = 5, .kv = DTYPE_F32};
    program *p = random_model(&shapes[4], 42);
    float *once = collect(p, &o);
    o.twice = true;
    same(p, once, collect(p, &o), "each step twice");
    mem_free(once);
    program_free(p);
}

/* The comparison sees a difference of one key: a window one shorter gives other logits. */
static void sees_differences(void **unused)
{
    (void)unused;
    trace_options base = {.isa = "c", .threads = 1, .batch = 16, .chunk = 5, .kv = DTYPE_F32};
    model_shape shorter = shapes[2];
    shorter.window--;
    program *p = random_model(&shapes[2], 42), *q = random_model(&shorter, 42);
    float *a = collect(p, &base), *b = collect(q, &base);
    assert_true(memcmp(a, b, (size_t)LENGTH * (size_t)p->vocab * sizeof *a) != 0);
    mem_free(a);
    mem_free(b);
    program_free(p);
    program_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotary_f32),        cmocka_unit_test(alibi_f16),   cmocka_unit_test(windows_bf16),
        cmocka_unit_test(learned_f32),       cmocka_unit_test(rotary_q8),   cmocka_unit_test(windows_q4),
        cmocka_unit_test(alibi_i16),         cmocka_unit_test(windows_i16), cmocka_unit_test(sees_differences),
        cmocka_unit_test(convolutions_bf16), cmocka_unit_test(recurrences), cmocka_unit_test(steps_can_be_done_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
