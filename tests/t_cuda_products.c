/* t_cuda_products.c - the kernels of packed matrices for few rows on the software GPU: the bits of the definition, for
 * every type, numbers of rows, lengths that end within a span, heads, experts, matrices that share a launch. */
#ifdef HAVE_CUDA
#include "product_rig.h"

static void every_type_by_rows(void **unused)
{
    (void)unused;
    static const product_size list[] = {{1, 48, 1088, 1, 1, 1}, {2, 40, 320, 1, 1, 1},  {7, 16, 832, 1, 1, 1},
                                        {8, 32, 96, 1, 1, 1},   {9, 16, 576, 1, 1, 1},  {32, 16, 512, 1, 1, 1},
                                        {128, 16, 64, 1, 1, 1}, {1, 16, 4160, 1, 1, 1}, {5, 32, 2624, 1, 1, 1}};
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            if (panel_format_of((dtype)t)) check((dtype)t, list[i], NULL, 0, false);
}

/* Panels that a warp has for itself, as on a device with few processors, through several turns of its ring: there is no
 * other warp whose barriers order what its own lanes read and copy. Rows so long that lanes go round in all loops. */
static void a_warp_alone(void **unused)
{
    (void)unused;
    static const product_size list[] = {{1, 16, 16960, 1, 1, 1}, {8, 16, 4672, 1, 1, 1}, {17, 16, 2624, 1, 1, 1}};
    const int processors = device.kernels.processors;
    device.kernels.processors = 0;
    for (int t = DTYPE_Q4_0; t < DTYPE_COUNT; t++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            if (panel_format_of((dtype)t)) check((dtype)t, list[i], NULL, 0, false);
    device.kernels.processors = processors;
}

/* All panels of a block at once, activations in several pieces. */
static void large_matrices(void **unused)
{
    (void)unused;
    check(DTYPE_Q4_B64, (product_size){1, 1040, 256, 1, 1, 1}, NULL, 0, false);
    check(DTYPE_Q8_0, (product_size){3, 1040, 160, 1, 1, 1}, NULL, 0, false);
    check(DTYPE_Q8_0, (product_size){8, 16, 11264, 1, 1, 1}, NULL, 0, false);
    check(DTYPE_Q6_K, (product_size){32, 16, 4096, 1, 1, 1}, NULL, 0, false);
}

static void heads_and_siblings(void **unused)
{
    (void)unused;
    check(DTYPE_Q4_B64, (product_size){1, 64, 128, 4, 1, 1}, NULL, 0, false);
    check(DTYPE_Q4_K, (product_size){5, 96, 512, 3, 1, 1}, NULL, 0, false);
    check(DTYPE_Q8_0, (product_size){11, 1024, 64, 2, 1, 1}, NULL, 0, false);
    check(DTYPE_Q8_0, (product_size){1, 48, 320, 1, 1, 3}, NULL, 0, false);
    check(DTYPE_Q3H_B64, (product_size){4, 32, 448, 1, 1, 2}, NULL, 0, false);
}

static int third_is_away(int row, int rows) { return row < rows / 3 ? 0 : row < rows * 2 / 3 ? 3 : -1; }
static int all_are_one(int row, int rows) { return (void)row, (void)rows, 2; }
static int none_is_here(int row, int rows) { return (void)row, (void)rows, -1; }
static int each_its_own(int row, int rows) { return (void)rows, row; }

static void experts(void **unused)
{
    (void)unused;
    static expert_of *const of[] = {third_is_away, all_are_one, none_is_here};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int used = 2; used < 80; used *= 6) {
            check(DTYPE_Q4_B64, (product_size){70, 32, 192, 1, 4, 1}, of[i], used, false);
            check(DTYPE_Q6_K, (product_size){13, 16, 256, 1, 4, 2}, of[i], used, false);
        }
    check(DTYPE_Q8_0, (product_size){4, 48, 160, 1, 4, 2}, each_its_own, 4, false);
    check(DTYPE_IQ4_NL, (product_size){4, 48, 160, 1, 4, 1}, each_its_own, 1, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type_by_rows), cmocka_unit_test(a_warp_alone),
                                       cmocka_unit_test(large_matrices), cmocka_unit_test(heads_and_siblings),
                                       cmocka_unit_test(experts)};
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
