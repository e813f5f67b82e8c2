/* t_engine_invariance_packed.c - models whose matrices are packed, of every block type: the logits of a token are the
 * same bits whatever shares its step, on every instruction set, with every kind of cache. t_engine_invariance.c has the
 * models of floats. */
#include "cpu/cpu.h"
#include "random_model.h"

enum { SEQS = 9, LENGTH = 9, VOCAB = 61 };

static const dtype caches[] = {DTYPE_F32, DTYPE_F16, DTYPE_I16, DTYPE_Q8_B64, DTYPE_Q4_B32};

static model_shape shape_of(dtype t, bool odd)
{
    return (model_shape){.layers = 2,
                         .dim = odd ? 104 : 256,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = odd ? 26 : 64,
                         .ffn = odd ? 200 : 256,
                         .vocab = VOCAB,
                         .ctx = 64,
                         .rope_dims = 26,
                         .gated = true,
                         .type = t};
}

/* The values of a model's logits: neither all alike nor beyond floats. */
static void says_something(const char *name, const float *logits, size_t n)
{
    float low = logits[0], high = logits[0];
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i])) fail_msg("%s: logit %zu is not finite", name, i);
        low = logits[i] < low ? logits[i] : low;
        high = logits[i] > high ? logits[i] : high;
    }
    if (high - low < 0.01f) fail_msg("%s: logits from %g to %g", name, (double)low, (double)high);
}

static void check(dtype t, bool odd, dtype kv)
{
    static const trace_options runs[] = {
        {.isa = "c", .threads = 2, .batch = 9, .chunk = 5},
        {.isa = "avx2", .threads = 1, .batch = 1, .chunk = 14},
        {.isa = "avx2", .threads = 2, .batch = 7, .chunk = 3},
        {.isa = "avxvnni", .threads = 2, .batch = 9, .chunk = 14},
        {.isa = "avxvnni", .threads = 1, .batch = 2, .chunk = 1},
        {.isa = "avx512", .threads = 1, .batch = 1, .chunk = 5},
        {.isa = "avx512", .threads = 2, .batch = 9, .chunk = 14},
        {.isa = "avx512", .threads = 2, .batch = 4, .chunk = 1},
        {.devices = "cpu:1;cpu:1", .batch = 3, .chunk = 4},
    };
    enum { N = SEQS * LENGTH * VOCAB };
    static float want[N], got[N];
    model_shape m = shape_of(t, odd);
    program *p = random_model(&m, 7 + t);
    trace_options base = {.isa = "c", .threads = 1, .batch = 1, .chunk = 1, .kv = kv};
    trace(p, &base, SEQS, LENGTH, want);
    says_something(dtype_info[t].name, want, N);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        trace_options o = runs[i];
        if (o.isa && !cpu_kernels_named(o.isa)) continue;
        o.kv = kv;
        trace(p, &o, SEQS, LENGTH, got);
        if (memcmp(want, got, sizeof want))
            fail_msg("%s, cache %s: other bits on %s, %d threads, batch %d, chunk %d", dtype_info[t].name,
                     dtype_info[kv].name, o.isa ? o.isa : o.devices, o.threads, o.batch, o.chunk);
    }
    program_free(p);
}

static void every_type(void **unused)
{
    (void)unused;
    int n = 0;
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (panel_format_of((dtype)t)) check((dtype)t, false, caches[n++ % 5]);
    assert_true(n > 35);
}

/* Rows that end within a block, of the types that may: those whose blocks are at most 64 and this project's own. */
static void odd_rows(void **unused)
{
    (void)unused;
    int n = 0;
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (panel_format_of((dtype)t) && (linear_top((dtype)t) || tables_format_of((dtype)t)))
            check((dtype)t, true, caches[n++ % 5]);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type), cmocka_unit_test(odd_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
