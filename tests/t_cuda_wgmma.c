/* t_cuda_wgmma.c - packed weights times many rows by tensor instructions of warpgroups, on a software GPU of capability
 * 9.0: the bits of the definition for every type, rows and outputs that fill no block of threads, heads, experts; that
 * these kernels are the ones that ran; and what ptxas said of them where this build has their machine code.
 * TYPE=q4_b64: that type alone. CUDA_TESTS=all: 2048 rows too. */
#ifdef HAVE_CUDA
#include "product_rig.h"

/* Multiplies; fails where warpgroups multiplied though they should not, or did not. */
static void check_way(dtype type, product_size s, expert_of *of, bool warpgroups)
{
    const char *only = getenv("TYPE");
    if (only && strcmp(only, dtype_info[type].name)) return;
    const uint64_t before = *wgmmas;
    check(type, s, of, 1, false);
    if ((*wgmmas > before) != warpgroups)
        fail_msg("%s, %d rows, %d outputs, %d heads: %s warpgroups", dtype_info[type].name, s.rows, s.n, s.heads,
                 warpgroups ? "not by" : "by");
}

/* Kinds with blocks of 16 columns stay with the kernels of warps, and so does FP8. */
static void every_type(void **unused)
{
    (void)unused;
    static const product_size list[] = {{41, 40, 768, 1, 1, 1}, {67, 208, 320, 1, 1, 1}};
    for (int t = 1; t < DTYPE_COUNT; t++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            const panel_format *f = panel_format_of((dtype)t);
            if (f && (i == 0 || list[i].cols % (int)dtype_info[t].weights == 0))
                check_way((dtype)t, list[i], NULL, WG_FITS(f->block, f->code));
        }
}

static void rows_and_outputs(void **unused)
{
    (void)unused;
    static const product_size list[] = {{1, 16, 64, 1, 1, 1},     {33, 400, 64, 1, 1, 1},   {64, 192, 512, 1, 1, 1},
                                        {65, 200, 256, 1, 1, 1},  {128, 48, 640, 1, 1, 1},  {129, 16, 1088, 1, 1, 1},
                                        {300, 304, 320, 1, 1, 2}, {2048, 208, 256, 1, 1, 1}};
    const bool all = getenv("CUDA_TESTS") != NULL;
    static const dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_B64, DTYPE_Q4_K};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types && (all || list[i].rows < 2048); t++)
            if (types[t] != DTYPE_Q4_K || list[i].cols % 256 == 0) check_way(types[t], list[i], NULL, true);
}

static void heads(void **unused)
{
    (void)unused;
    check_way(DTYPE_Q4_B64, (product_size){40, 384, 128, 2, 1, 1}, NULL, true);
    check_way(DTYPE_Q4_K, (product_size){70, 576, 256, 3, 1, 1}, NULL, true);
    check_way(DTYPE_Q8_0, (product_size){40, 256, 64, 2, 1, 1}, NULL, false); /* of 128 outputs */
}

static int third_is_away(int row, int rows) { return row < rows / 3 ? 0 : row < rows * 2 / 3 ? 3 : -1; }
static int all_are_one(int row, int rows) { return (void)row, (void)rows, 2; }
static int none_is_here(int row, int rows) { return (void)row, (void)rows, -1; }
static int in_turn(int row, int rows) { return row * 4 / rows; }

static void experts(void **unused)
{
    (void)unused;
    static const product_size many = {150, 208, 256, 1, 4, 2};
    static const dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_B64, DTYPE_Q5_K};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        check_way(types[t], many, third_is_away, true);
        check_way(types[t], many, all_are_one, true);
        check_way(types[t], many, none_is_here, false);
        check_way(types[t], many, in_turn, true);
        check_way(types[t], (product_size){100, 16, 256, 1, 4, 1}, in_turn, false); /* 25 rows each */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type), cmocka_unit_test(rows_and_outputs),
                                       cmocka_unit_test(heads), cmocka_unit_test(experts)};
    setenv("SOFT_GPU_CAPABILITY", "9.0", 1);
    by_many = true;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
#else
#include "test.h"

int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
