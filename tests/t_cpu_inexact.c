/* t_cpu_inexact.c - --exact off: matrices of floats multiplied as bfloat16 (cpu/simd/v_step.h), its error against a
 * bound worked by hand, and what stays the same there. On processors without AVX-512 BF16 only that it is refused, or
 * not used. */
#include "cpu/cpu_backend.h"
#include "models/model.h"
#include "random_model.h"
#include "rig.h"

static const char isa[] = "avx512bf16";

static const cpu_table *kernels(void)
{
    const cpu_table *t = cpu_kernels_named(isa);
    if (!t) skip_msg("instruction set %s is not here", isa);
    return t;
}

static op matmul_of(rig *g, dtype type, int rows, int n, int k, bool bias)
{
    rig_open(g, (uint64_t)rows * (uint64_t)(n + k) * 4);
    g->st.n[AXIS_TOK] = rows;
    op o = {.kind = OP_MATMUL};
    o.in[0] = rig_act(g, k);
    o.in[1] = rig_weight(g, type, n, k, type == DTYPE_F32 ? 4 : 2);
    if (bias) o.in[2] = rig_const(g, n);
    o.out = rig_act(g, n);
    return o;
}

/* The result in double precision, and the sum of sizes of all products. */
static double wanted(rig *g, const op *o, const float *row, int m, int j, double *size)
{
    int64_t k = g->held[0].cols;
    double s = 0;
    *size = 0;
    for (int64_t i = 0; i < k; i++) {
        double term = (double)row[i] * rig_at(g, o->in[0])[m * k + i];
        s += term;
        *size += fabs(term);
    }
    return o->in[2] ? s + g->t[o->in[2]].data[j] : s;
}

/* bfloat16 has 8 bits of precision: rounding a factor errs by 2^-8 of it at most, so a product of two rounded ones by
 * 2^-7 + 2^-16, of one by 2^-8. To that come the roundings of k float32 additions, 2^-24 of the sum of sizes each.
 * Rounding has to show, too: factors of more bits make the mean error of many results a tenth of the bound or more in
 * proportion to sqrt(k). */
static void matmul_case(const cpu_table *t, dtype type, int rows, int n, int k, bool bias)
{
    rig g;
    op o = matmul_of(&g, type, rows, n, k, bias);
    double unit = type == DTYPE_BF16 ? 0x1p-8 : 0x1p-7 + 0x1p-16, errors = 0, bounds = 0;
    float *row = mem_array((size_t)k, sizeof *row);
    assert_non_null(row);
    rig_run(&g, t, 1, &o);
    for (int j = 0; j < n; j++) {
        held_row(&g.held[0], j, row);
        for (int m = 0; m < rows; m++) {
            double size, want = wanted(&g, &o, row, m, j, &size), got = rig_at(&g, o.out)[m * n + j],
                         most = (unit + (k + 2) * 0x1p-23) * size + 0x1p-23 * fabs(want);
            if (!(fabs(got - want) <= most))
                fail_msg("%s, %d rows, %d x %d: %g, not %g within %g", dtype_info[type].name, rows, n, k, got, want,
                         most);
            errors += fabs(got - want);
            bounds += most;
        }
    }
    if (rows * n * k > 1000 && errors * sqrt(k) < 0.1 * bounds)
        fail_msg("%s, %d rows, %d x %d: nothing was rounded", dtype_info[type].name, rows, n, k);
    mem_free(row);
    rig_close(&g);
}

/* Shapes on both sides of every border: steps of 32, blocks of 768, tiles of 4 x 6, rows read in each of the three
 * ways. */
static const int sizes[][3] = {{1, 1, 1},   {1, 13, 31},  {1, 9, 32},     {1, 30, 129},  {2, 7, 33},
                               {5, 4, 64},  {6, 15, 95},  {7, 3, 160},    {13, 26, 97},  {31, 12, 63},
                               {32, 5, 96}, {33, 13, 40}, {70, 33, 1100}, {97, 24, 768}, {200, 26, 801}};
enum { SHAPES = sizeof sizes / sizeof *sizes };

static void errors_are_bounded(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0};
    const cpu_table *t = kernels();
    for (int i = 0; t && i < SHAPES; i++)
        for (int k = 0; k < 3; k++) matmul_case(t, types[k], sizes[i][0], sizes[i][1], sizes[i][2], i % 2);
    if (t) matmul_case(t, DTYPE_Q8_0, 40, 17, 96, true); /* --act f32: its rows become floats first */
}

/* Small integers are exact in bfloat16 and their sums in float32: then the result equals the definition, bit for
 * bit. */
static void whole_numbers_are_exact(void **unused)
{
    (void)unused;
    const cpu_table *t = kernels();
    for (int i = 0; t && i < SHAPES; i++)
        for (int type = 0; type < 3; type++) {
            rig g;
            int rows = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            op o = matmul_of(&g, (dtype[]){DTYPE_F32, DTYPE_F16, DTYPE_BF16}[type], rows, n, k, false);
            float *x = rig_at(&g, o.in[0]);
            for (int m = 0; m < rows * k; m++) x[m] = (float)((int)(rig_random() % 255) - 127);
            for (int j = 0; j < n * k; j++) {
                float w = (float)((int)(rig_random() % 127) - 63);
                uint8_t *to = (uint8_t *)g.held[0].data + (uint64_t)j * dtype_info[g.held[0].type].bytes;
                quant_encode(g.held[0].type, &w, to, 1);
            }
            uint64_t bytes = (uint64_t)rows * (uint64_t)n * sizeof(float);
            float *want = mem_alloc(bytes);
            assert_non_null(want);
            rig_run(&g, cpu_kernels_named("c"), 1, &o);
            memcpy(want, rig_at(&g, o.out), bytes);
            for (int workers = 1; workers <= 3; workers++) {
                memset(rig_at(&g, o.out), 0xff, bytes);
                rig_run(&g, t, workers, &o);
                if (memcmp(rig_at(&g, o.out), want, bytes))
                    fail_msg("%s, %d rows, %d x %d, %d workers: other bits", dtype_info[g.held[0].type].name, rows, n,
                             k, workers);
            }
            mem_free(want);
            rig_close(&g);
        }
}

/* What else is in the step still changes no bit: batch, chunk, threads, experts, heads. */
static void same_in_every_batch(void **unused)
{
    (void)unused;
    enum { LENGTH = 40, SEQS = 16 };
    static const char *const models[] = {"llama", "mixtral", "deepseek2", "t5"};
    const cpu_table *t = kernels();
    for (int i = 0; t && i < 4; i++) {
        char path[512];
        err e = {0};
        model *m;
        snprintf(path, sizeof path, "tests/vectors/models/%s", models[i]);
        assert_ok(model_open(&m, &(model_options){.model_path = path}, &e), &e);
        size_t bytes = (size_t)SEQS * LENGTH * (size_t)m->prog->vocab * sizeof(float);
        float *want = mem_alloc(bytes), *got = mem_alloc(bytes);
        assert_true(want && got);
        trace_options o = {.threads = 1, .batch = 1, .chunk = 1, .kv = DTYPE_F32, .inexact = true};
        trace(m->prog, &o, SEQS, LENGTH, want);
        static const trace_options ways[] = {{.threads = 2, .batch = 16, .chunk = 5},
                                             {.threads = 1, .batch = 7, .chunk = 40}};
        for (int w = 0; w < 2; w++) {
            o = ways[w];
            o.kv = DTYPE_F32;
            o.inexact = true;
            trace(m->prog, &o, SEQS, LENGTH, got);
            if (memcmp(want, got, bytes)) fail_msg("%s: other bits in batches of %d", models[i], o.batch);
        }
        o.inexact = false;
        trace(m->prog, &o, SEQS, LENGTH, got);
        if (!memcmp(want, got, bytes)) fail_msg("%s: --exact off is as on", models[i]);
        mem_free(want);
        mem_free(got);
        model_close(m);
    }
}

/* What the options choose: on never rounds otherwise, off only where the instruction set is there and not ruled out. */
static void chosen_by_options(void **unused)
{
    (void)unused;
#if defined(__x86_64__)
    unsigned all = CPU_AVX2 | CPU_AVXVNNI | CPU_AVX512;
    assert_string_equal(cpu_kernels(all | CPU_AVX512BF16, false)->isa, "avx512");
    assert_string_equal(cpu_kernels(all | CPU_AVX512BF16, true)->isa, isa);
    assert_string_equal(cpu_kernels(all, true)->isa, "avx512");
#endif
    for (int i = 0; cpu_tables[i]; i++) assert_int_equal(cpu_tables[i]->inexact, !strcmp(cpu_tables[i]->isa, isa));
    static const model_shape small = {.layers = 1,
                                      .dim = 16,
                                      .heads = 2,
                                      .kv_heads = 2,
                                      .head_dim = 8,
                                      .ffn = 24,
                                      .vocab = 13,
                                      .type = DTYPE_F32,
                                      .ctx = 16};
    program *p = random_model(&small, 1);
    err e = {0};
    static const bool none[200];
    weight_set *d;
    assert_true(p->n_weight <= sizeof none);
    assert_int_equal(cpu_backend.weights_open(&d, p, none, &(weight_options){.own = &(cpu_options){.isa = isa}}, &e),
                     ERR_USAGE);
    assert_non_null(strstr(e.msg, kernels() ? "--exact off" : "on this processor"));
    e = (err){0};
    const char *const others[] = {"c", "avx2", "avx512", "neon"};
    for (int i = 0; i < 4; i++) {
        if (!cpu_kernels_named(others[i])) continue;
        const cpu_options own = {.isa = others[i]};
        assert_ok(cpu_backend.weights_open(&d, p, none, &(weight_options){.own = &own, .inexact = true}, &e), &e);
        assert_string_equal(cpu_backend.isa(d), others[i]);
        cpu_backend.weights_close(d);
    }
    program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(same_in_every_batch),
        cmocka_unit_test(chosen_by_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
