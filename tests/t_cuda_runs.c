/* t_cuda_runs.c - norms of wide rows by the kernel of runs (cuda/rows.cuh), in the bits of the reference: a row takes
 * more shared memory than a kernel gets without asking. */
#ifdef HAVE_CUDA
#include "cuda_op_rig.h"

#include "cuda/cuda_runs.h"

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

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(wide_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "cuda_rig.h"

int main(void) { return cuda_rig_open(); }
#endif
