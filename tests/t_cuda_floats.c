/* t_cuda_floats.c - the kernels of float matrices (cuda/fmatmul.cuh) on the software GPU: the bits of the definition,
 * for each type, one row and several, columns through several turns of the ring and behind its last stage, rows that do
 * not begin at multiples of 16 bytes, heads, experts, matrices that share a launch. */
#ifdef HAVE_CUDA
#include "product_rig.h"

#include "ops/run.h"
#include "base/half.h"

static const dtype float_types[CUDA_FLOATS] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

typedef struct float_part {
    uint8_t *w;
    float *wide, *bias; /* wide: w as floats */
    cu_address y;
} float_part;

static cu_address given[3 * PARTS_MOST + 3];
static int n_given;

static cu_address give(const void *from, uint64_t bytes)
{
    err e = {0};
    cu_address *at = &given[n_given++];
    assert_int_equal(cuda_take(&device.q, bytes, "a test", at, &e), OK);
    assert_int_equal(cuda_send(&device.q, *at, from, bytes, &e), OK);
    return *at;
}

static float_part make_part(dtype type, int64_t n)
{
    float_part p = {.w = mem_alloc((size_t)n * dtype_info[type].bytes), .wide = mem_alloc((size_t)n * sizeof(float))};
    for (int64_t i = 0; i < n; i++) {
        const float v = rig_normal();
        const uint16_t h = type == DTYPE_F16 ? f32_to_f16(v) : f32_to_bf16(v);
        p.wide[i] = type == DTYPE_F32 ? v : type == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
        if (type == DTYPE_F32) ((float *)p.w)[i] = v;
        else ((uint16_t *)p.w)[i] = h;
    }
    return p;
}

static float *normals(int64_t n)
{
    float *x = mem_alloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = rig_normal();
    return x;
}

static int expert_of_row(int row, int experts) { return row == 1 ? -1 : row * 2 % experts; }

/* Compares what came out; s.n outputs of an expert. */
static void compare(int type, product_size s, const float *x, const float_part *p)
{
    err e = {0};
    const uint64_t count = (uint64_t)(s.rows * s.n);
    float *got = mem_alloc((size_t)count * sizeof(float));
    assert_int_equal(cuda_fetch(&device.q, got, p->y, count * sizeof(float), &e), OK);
    for (int m = 0; m < s.rows; m++) {
        const int expert = s.experts > 1 ? expert_of_row(m, s.experts) : 0;
        for (int n = 0; n < s.n && expert >= 0; n++) {
            const float *row = x + (int64_t)m * s.cols * s.heads + (int64_t)(n / (s.n / s.heads)) * s.cols;
            const int64_t at = (int64_t)expert * s.n + n;
            const float want = def_dot(p->wide + at * s.cols, row, s.cols) + p->bias[at];
            if (memcmp(&got[m * s.n + n], &want, sizeof want))
                fail_msg("%s, %d x %d, %d rows, %d heads, %d experts, %d parts: row %d, output %d is %a instead of %a",
                         dtype_info[float_types[type]].name, s.n, s.cols, s.rows, s.heads, s.experts, s.parts, m, n,
                         (double)got[m * s.n + n], (double)want);
        }
    }
    mem_free(got);
}

static void check_floats(int type, product_size s)
{
    err e = {0};
    float_part p[PARTS_MOST];
    int32_t table[64 * DISPATCH_COLS] = {0};
    float *x = normals((int64_t)s.rows * s.cols * s.heads), *nothing = mem_zero((size_t)(s.rows * s.n), sizeof(float));
    for (int m = 0; m < s.rows && m < 64; m++) table[m * DISPATCH_COLS + DISPATCH_EXPERT] = expert_of_row(m, s.experts);
    n_given = 0;
    fmat_args a = {.live = (const int32_t *)(uintptr_t)give(&s.rows, 4),
                   .table = s.experts > 1 ? (const int32_t *)(uintptr_t)give(table, sizeof table) : NULL,
                   .x = (const float *)(uintptr_t)give(x, (uint64_t)s.rows * (uint64_t)(s.cols * s.heads) * 4),
                   .cols = s.cols,
                   .x_cols = (int64_t)s.cols * s.heads,
                   .head_rows = s.heads > 1 ? s.n / s.heads : INT64_MAX,
                   .parts = s.parts};
    for (int i = 0; i < s.parts; i++) {
        const int64_t outputs = (int64_t)s.n * s.experts;
        p[i] = make_part(float_types[type], outputs * s.cols);
        p[i].bias = normals(outputs);
        p[i].y = give(nothing, (uint64_t)(s.rows * s.n) * 4);
        const uint64_t bytes = (uint64_t)(outputs * s.cols) * dtype_info[float_types[type]].bytes;
        a.part[i] = (product_part){.w = (const uint8_t *)(uintptr_t)give(p[i].w, bytes),
                                   .bias = (const float *)(uintptr_t)give(p[i].bias, (uint64_t)outputs * 4),
                                   .y = (float *)(uintptr_t)p[i].y,
                                   .n = s.n,
                                   .stride = (uint64_t)s.cols * dtype_info[float_types[type]].bytes,
                                   .first = a.blocks};
        a.blocks += (int32_t)cuda_blocks(s.n, FMAT_OUTPUTS);
    }
    if (cuda_fmat_launch(&device.q, &device.kernels, type, s.rows, &a, &e)) fail_msg("%s", e.msg);
    for (int i = 0; i < s.parts; i++) compare(type, s, x, &p[i]);
    for (int i = 0; i < s.parts; i++) mem_free(p[i].w), mem_free(p[i].wide), mem_free(p[i].bias);
    while (n_given) cuda_give(&device.q, &given[--n_given], 0);
    mem_free(x);
    mem_free(nothing);
}

static void rows_and_columns(void **unused)
{
    (void)unused;
    static const product_size list[] = {{1, 5, 20, 1, 1, 1},   {1, 19, 4168, 1, 1, 1}, {2, 16, 136, 1, 1, 1},
                                        {7, 9, 67, 1, 1, 1},   {9, 8, 2112, 1, 1, 1},  {1, 24, 129, 1, 1, 1},
                                        {17, 3, 320, 1, 1, 1}, {8, 33, 256, 1, 1, 1}};
    for (int type = 0; type < CUDA_FLOATS; type++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_floats(type, list[i]);
}

static void heads_experts_and_siblings(void **unused)
{
    (void)unused;
    static const product_size list[] = {{3, 24, 136, 4, 1, 1}, {1, 6, 68, 2, 1, 1},   {5, 10, 264, 1, 4, 1},
                                        {4, 20, 192, 1, 3, 2}, {1, 17, 320, 1, 1, 3}, {9, 40, 96, 1, 1, 2}};
    for (int type = 0; type < CUDA_FLOATS; type++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_floats(type, list[i]);
}

/* Lane-instructions a weight, of what an H200 has time for while memory gives one (t_cuda_budget.c): as was reached.
 * For each weight of bf16 one is a mov of PTX between kinds of registers, which ptxas drops. */
static void kernels_keep_to_the_rate_of_memory(void **unused)
{
    (void)unused;
    static const double most[CUDA_FLOATS][2] = {{0.12, 0.45}, {0.25, 0.87}, {0.31, 0.93}};
    for (int type = 0; type < CUDA_FLOATS; type++)
        for (int k = 0; k < 2; k++) {
            const product_size s = {k ? 8 : 1, 256, 4096, 1, 1, 1};
            const uint64_t before = *instructions;
            check_floats(type, s);
            const double lanes = 32 * (double)(*instructions - before) / ((double)s.n * s.cols),
                         share = lanes / (128 * 132 * 1.98e9 / 4.3e12 * dtype_info[float_types[type]].bytes);
            if (getenv("SHARES"))
                print_message("%s, %d rows: %.2f, %.3f\n", dtype_info[float_types[type]].name, s.rows, lanes, share);
            if (share > most[type][k])
                fail_msg("%s, %d rows: lane-instructions are %.2f of an H200's, more than %.2f",
                         dtype_info[float_types[type]].name, s.rows, share, most[type][k]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_and_columns), cmocka_unit_test(heads_experts_and_siblings),
                                       cmocka_unit_test(kernels_keep_to_the_rate_of_memory)};
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
