/* t_cuda_budget.c - what the kernels of packed matrices cost: lane-instructions a weight, counted on the software GPU,
 * as a share of what an H200 has time for while memory gives the weight: 128 lanes a clock at 1.98 GHz on each of 132
 * multiprocessors, 4.3 TB/s. Instructions are those of PTX; ptxas makes fewer of some and more of others.
 *
 * Bars are what was reached; SHARES=1 prints what is. Above 1 a kind is bound by instructions, not by memory, as
 * counted here.
 *
 * And what ptxas says of registers, where nvcc has made machine code: a spilled one is memory, which no kernel here can
 * afford. */
#ifdef HAVE_CUDA
#include "product_rig.h"

/* A type of each kind of panel: most for 1 row and for 8. A kind that is missing fails. */
static const struct {
    dtype type;
    double share[2];
} rows[] = {
    {DTYPE_Q8_0, {0.20, 0.25}},    {DTYPE_Q4_0, {0.32, 0.48}},      {DTYPE_Q8_B32, {0.22, 0.29}},
    {DTYPE_Q8_B64, {0.23, 0.30}},  {DTYPE_Q6_B64, {0.43, 0.55}},    {DTYPE_Q5_B64, {0.42, 0.49}},
    {DTYPE_Q4_B32, {0.45, 0.56}},  {DTYPE_Q4_B64, {0.30, 0.40}},    {DTYPE_Q3H_B64, {0.76, 0.99}},
    {DTYPE_Q3_B32, {0.62, 0.88}},  {DTYPE_Q2_B32, {0.72, 0.93}},    {DTYPE_Q5_0, {0.46, 0.55}},
    {DTYPE_Q5_1, {0.48, 0.58}},    {DTYPE_Q8_F32, {0.17, 0.23}},    {DTYPE_Q8_K, {0.14, 0.23}},
    {DTYPE_TQ2_0, {0.51, 0.75}},   {DTYPE_Q1_0, {0.80, 1.43}},      {DTYPE_IQ4_NL, {0.55, 0.71}},
    {DTYPE_MXFP4, {0.65, 1.01}},   {DTYPE_NVFP4, {0.76, 1.22}},     {DTYPE_Q2_K, {0.75, 1.40}},
    {DTYPE_Q3_K, {0.71, 1.05}},    {DTYPE_Q4_K, {0.36, 0.55}},      {DTYPE_Q5_K, {0.40, 0.57}},
    {DTYPE_Q6_K, {0.44, 0.53}},    {DTYPE_IQ4_XS, {0.60, 0.74}},    {DTYPE_IQ2_XXS, {0.68, 0.99}},
    {DTYPE_IQ2_XS, {0.68, 1.22}},  {DTYPE_Q4_T, {0.70, 0.84}},      {DTYPE_Q3H_T, {0.79, 1.07}},
    {DTYPE_Q3_T, {0.69, 1.00}},    {DTYPE_Q2_T, {0.77, 1.15}},      {DTYPE_F8_B128, {0.80, 1.10}},
    {DTYPE_I8_B128, {0.20, 0.26}}, {DTYPE_Q8_Z128, {0.27, 0.35}},   {DTYPE_Q4_Z32, {0.48, 0.59}},
    {DTYPE_Q4_Z64, {0.30, 0.42}},  {DTYPE_Q4_Z128, {0.34, 0.49}},   {DTYPE_Q3_Z128, {0.73, 0.91}},
    {DTYPE_Q2_Z128, {0.55, 0.88}}, {DTYPE_NVFP4_F32, {0.63, 0.78}},
};

static const double *bars_of(int kind)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (panel_format_of(rows[i].type)->kind == kind) return rows[i].share;
    return NULL;
}

/* As a share of what an H200 does while memory gives the weights. */
static double share_of(dtype type, int count)
{
    const product_size s = {count, 1024, 4096, 1, 1, 1};
    const double bits = (double)panel_bytes(type, s.cols) / 2 / s.cols,
                 lanes = 32 * (double)check(type, s, NULL, 0, true) / ((double)s.n * s.cols);
    return lanes / (128 * 132 * 1.98e9 / 4.3e12 * bits / 8);
}

static void kernels_keep_to_the_rate_of_memory(void **unused)
{
    (void)unused;
    static const int count[2] = {1, 8};
    bool seen[PANEL_KINDS] = {false};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const panel_format *f = panel_format_of((dtype)t);
        if (!f || seen[f->kind]) continue;
        seen[f->kind] = true;
        const double *most = bars_of(f->kind);
        if (!most) fail_msg("%s: no bar for a kind of panel", dtype_info[t].name);
        for (int k = 0; k < 2; k++) {
            const double share = share_of((dtype)t, count[k]);
            if (getenv("SHARES")) print_message("%s, %d rows: %.3f\n", dtype_info[t].name, count[k], share);
            if (share > most[k])
                fail_msg("%s, %d rows: lane-instructions are %.2f of an H200's, more than %.2f", dtype_info[t].name,
                         count[k], share, most[k]);
        }
    }
}

/* The number of kernels; -1: ptxas spilled a register of one, or found fault: C7510 to C7519 are wgmma one by one. */
static int good_kernels(const char *said)
{
    static const char good[] = " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
    int kernels = 0, stacks = 0, spares = 0;
    for (const char *at = said; (at = strstr(at, "Compiling entry function")); at++) kernels++;
    for (const char *at = said; (at = strstr(at, " bytes stack frame")); at++) stacks++;
    for (const char *at = said; (at = strstr(at, good)); at++) spares++;
    return strstr(said, "(C7") || strstr(said, "warning") || stacks < kernels || spares != stacks ? -1 : kernels;
}

static void ptxas_is_content(void **unused)
{
    (void)unused;
#define KERNEL(stack)                                                                                                  \
    "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n    " stack                                            \
    " bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    assert_int_equal(good_kernels(KERNEL("0") KERNEL("0")), 2);
    assert_int_equal(good_kernels(KERNEL("0") KERNEL("10")), -1);
    assert_int_equal(good_kernels(KERNEL("0") "ptxas info    : (C7510) Potential Performance Loss: wgmma"), -1);
    static const char *const images[] = {"fast.sm_80",     "prefill.sm_80", "join.sm_80",  "wide.sm_80", "fast.sm_90a",
                                         "prefill.sm_90a", "wgmma.sm_90a",  "join.sm_90a", "wide.sm_90a"};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        char path[1100];
        gpu_folder(path);
        snprintf(path + strlen(path), sizeof path - strlen(path), "/../gen/%s.cubin.log", images[i]);
        FILE *f = fopen(path, "r");
        if (!f) continue; /* this build has no such machine code */
        static char said[1 << 18];
        const size_t n = fread(said, 1, sizeof said - 1, f);
        assert_true(n < sizeof said - 1);
        said[n] = 0;
        fclose(f);
        if (good_kernels(said) < 1) fail_msg("ptxas found fault with a kernel: %s", path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ptxas_is_content),
                                       cmocka_unit_test(kernels_keep_to_the_rate_of_memory)};
    setenv("SOFT_GPU_RACES", "0", 1);
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
