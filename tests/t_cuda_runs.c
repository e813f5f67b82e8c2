/* t_cuda_runs.c - kernels of rows (cuda/rows.cuh) in the bits of the reference: norms of wide rows, which take more
 * shared memory than a kernel gets without asking, and the best logits of rows of every shape. */
#ifdef HAVE_CUDA
#include "cuda_op_rig.h"

#include "base/rng.h"
#include "cuda/cuda_runs.h"

#include <math.h>

static void wide_norms(void **unused)
{
    (void)unused;
    static const int widths[] = {10304, 24576};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int width = widths[i];
        static rig g;
        rig_open(&g, (uint64_t)width * 4 * 4);
        g.st.n[AXIS_TOK] = 2;
        const ref x = rig_act(&g, width), gain = rig_const(&g, width);
        op o = {.kind = OP_NORM, .state = -1, .in = {x, gain}, .u.norm = {.eps = 1e-5f, .width = width}};
        o.out = rig_act(&g, width);
        g.ops[0] = o;
        g.p.n_op = 1;
        assert_int_equal(cuda_run_length(&g.seg, 0), 1);
        float *got = mem_array((size_t)width * 2, sizeof *got);
        assert_non_null(got);
        rig_run(&g, cpu_kernels_named("c"), 1, &o);
        cuda_op_run(&g, &o, 1, x, 1, got);
        assert_memory_equal(got, rig_at(&g, o.out), (size_t)width * 2 * sizeof *got);
        mem_free(got);
        rig_close(&g);
    }
}

enum { SHAPES = 9, WIDTH = 3001 };

/* Ties, both zeros, few finite, equal all, infinite, NaN, falling, and values of all sizes. */
static float shape_at(int row, int i)
{
    const float x = (float)(rng_uniform(3, (uint64_t)row, (uint64_t)i) - 0.5) * 40;
    switch (row) {
    case 0: return roundf(x);
    case 1: return i % 3 ? -0.0f : 0.0f;
    case 2: return i % 97 ? -INFINITY : x;
    case 3: return -7;
    case 4: return i == 2000 ? INFINITY : x;
    case 5: return i == 1500 ? NAN : x;
    case 6: return (float)-i;
    case 7: return ldexpf(x, i % 60 - 30);
    default: return x;
    }
}

static void best_logits(void **unused)
{
    (void)unused;
    static const int32_t counts[] = {1, 2, 40, BEST_MAX};
    static rig g;
    best_logit got[SHAPES * BEST_MAX], want[BEST_MAX];
    cuda_op_rig r;
    err e = {0};
    rig_open(&g, (uint64_t)WIDTH * SHAPES * 4 * 2);
    g.st.n[AXIS_TOK] = SHAPES;
    const ref x = rig_act(&g, WIDTH), one = rig_const(&g, WIDTH);
    op o = {.kind = OP_NORM, .state = -1, .in = {x, one}, .u.norm = {.eps = 1e-5f, .width = WIDTH}};
    o.out = rig_act(&g, WIDTH);
    for (int i = 0; i < SHAPES * WIDTH; i++) ((float *)rig_at(&g, x))[i] = shape_at(i / WIDTH, i % WIDTH);
    cuda_op_open(&r, &g, &o, 1, x);
    for (int i = 0; i < 4; i++) {
        const int32_t k = counts[i];
        assert_ok(cuda_backend.pick(r.d, &r.s, x, 0, SHAPES, k, got, &e), &e);
        for (int s = 0; s < SHAPES; s++) {
            logits_best_list((float *)rig_at(&g, x) + s * WIDTH, WIDTH, k, want);
            if (memcmp(got + s * k, want, (size_t)k * sizeof *want)) fail_msg("the best %d of row %d differ", k, s);
        }
    }
    cuda_op_close(&r, &g);
    rig_close(&g);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(wide_norms), cmocka_unit_test(best_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "cuda_rig.h"

int main(void) { return cuda_rig_open(); }
#endif
