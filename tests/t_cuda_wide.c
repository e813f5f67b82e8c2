/* t_cuda_wide.c - packed weights as rows of bfloat16, before products of cuBLAS (cuda/wide.cuh), on the software GPU:
 * the nearest bfloat16 to each weight as panels define it, of every kind, also where rows and columns end within a
 * panel, a tile or eight columns; and in few instructions. */
#ifdef HAVE_CUDA
#include "product_rig.h"

#include "base/half.h"

/* Lane-instructions a weight. */
static double check_strip(dtype type, int rows, int cols, int row0)
{
    err e = {0};
    product p = {.s = {1, rows, cols, 1, 1, 1}, .type = type};
    make_weights(&p, 0);
    held_weight w = p.w[0];
    const int64_t taken = rows - row0, count = taken * cols;
    uint16_t *got = mem_zero((size_t)count + 8, sizeof *got);
    float *want = mem_alloc((size_t)cols * sizeof *want);
    const uint64_t panels = (uint64_t)(rows + PANEL_ROWS - 1) / PANEL_ROWS;
    w.data = (const uint8_t *)(uintptr_t)send(&p, p.w[0].data, panels * w.stride);
    const cu_address to = send(&p, got, (uint64_t)(count + 8) * sizeof *got);
    const uint64_t before = *instructions;
    if (cuda_wide_strip(&device.q, &device.kernels, &w, row0, taken, to, &e)) fail_msg("%s", e.msg);
    if (cuda_fetch(&device.q, got, to, (uint64_t)(count + 8) * sizeof *got, &e)) fail_msg("%s", e.msg);
    for (int n = 0; n < taken; n++) {
        const int at = row0 + n;
        panel_row(type, p.w[0].data + (uint64_t)(at / PANEL_ROWS) * w.stride, at % PANEL_ROWS, cols, want);
        for (int k = 0; k < cols; k++)
            if (got[(int64_t)n * cols + k] != f32_to_bf16(want[k]))
                fail_msg("%s, %d x %d: output %d, column %d is %#x instead of %#x, which is nearest to %a",
                         dtype_info[type].name, rows, cols, at, k, got[(int64_t)n * cols + k], f32_to_bf16(want[k]),
                         (double)want[k]);
    }
    for (int i = 0; i < 8; i++) assert_int_equal(got[count + i], 0);
    const double lanes = 32 * (double)(*instructions - before) / (double)count;
    for (int i = 0; i < p.n_memory; i++) cuda_give(&device.q, &p.memory[i], 0);
    mem_free((void *)(uintptr_t)p.w[0].data);
    mem_free(p.bias[0]);
    mem_free(p.want[0]);
    mem_free(got);
    mem_free(want);
    return lanes;
}

static void weights_are_the_nearest(void **unused)
{
    (void)unused;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (!panel_format_of((dtype)t)) continue;
        const int each = (int)dtype_info[t].weights, cols = (300 + each - 1) / each * each;
        check_strip((dtype)t, 48, cols, 16);
        check_strip((dtype)t, 16, 1024, 0);
        check_strip((dtype)t, 24, 101, 0);
    }
}

static void takes_few_instructions(void **unused)
{
    (void)unused;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const panel_format *f = panel_format_of((dtype)t);
        if (!f) continue;
        const double lanes = check_strip((dtype)t, 32, 4096, 0);
        const double most = f->code == PANEL_E4M3 ? 27 : f->code == PANEL_CODE ? 12.7 : 17.6;
        if (getenv("SHARES")) print_message("%s: %.2f\n", dtype_info[t].name, lanes);
        if (lanes > most)
            fail_msg("%s: %.2f lane-instructions a weight, more than %.1f", dtype_info[t].name, lanes, most);
    }
}

static int open_wide(void **unused)
{
    err e = {0};
    int rc = open_device(unused);
    if (!rc) rc = cuda_wide_load(&device, &e);
    if (rc) fprintf(stderr, "%s\n", e.msg);
    return rc;
}

static int close_wide(void **unused)
{
    const int code = device.q.cu->cuModuleUnload(device.wide);
    return code ? code : close_device(unused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_nearest),
        cmocka_unit_test(takes_few_instructions),
    };
    return cmocka_run_group_tests(tests, open_wide, close_wide);
}
#else
#include "test.h"

int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
