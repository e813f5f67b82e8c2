/* t_kernels.c - every op on every instruction set against the C reference, bit for bit, and the reference against double precision. */
#include "rig.h"

#include "base/fmath.h"

static char what[200];

/* ---- MATMUL */

static void matmul_case(dtype type, int rows, int n, int k, int shift, bool bias)
{
    rig g;
    rig_open(&g, (uint64_t)rows * (uint64_t)(n + k) * 4);
    g.st.n[ROWS_TOK] = rows;
    op o = {.kind = OP_MATMUL, .in = {rig_act(&g, k), rig_weight(&g, type, n, k, shift)}, .out = rig_act(&g, n)};
    if (bias) o.in[2] = rig_const(&g, n);
    snprintf(what, sizeof what, "matmul %s, %d rows, %d x %d, shift %d, bias %d", dtype_info[type].name, rows, n, k,
             shift, bias);
    rig_same(&g, &o, what);
    float *row = mem_array((size_t)k, 4);
    assert_non_null(row);
    for (int j = 0; j < n; j += 1 + n / 7) {
        held_row(&g.held[0], j, row);
        for (int m = 0; m < rows; m += 1 + rows / 5) {
            double s = bias ? g.t[o.in[2]].data[j] : 0, size = 1;
            for (int i = 0; i < k; i++) {
                double term = (double)row[i] * rig_at(&g, o.in[0])[m * k + i];
                s += term;
                size += fabs(term);
            }
            if (fabs(s - rig_at(&g, o.out)[m * n + j]) > 2e-7 * size) fail_msg("%s: wrong value", what);
        }
    }
    mem_free(row);
    rig_close(&g);
}

static void matmul_equals_the_reference(void **unused)
{
    (void)unused;
    static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++) {
        for (int rows = 1; rows <= 16; rows++)
            matmul_case(types[t], rows, 13 + rows, 40 + 3 * rows, t ? 2 * rows % 4 : 0, rows % 2);
        matmul_case(types[t], 1, 1, 1, 0, true);
        matmul_case(types[t], 7, 1, 5, 0, false);
        matmul_case(types[t], 70, 33, 1100, t ? 2 : 4, true);
        matmul_case(types[t], 200, 26, 530, t ? 6 : 4, false);
    }
    static const dtype others[] = {DTYPE_F64, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_I8};
    for (int t = 0; t < 4; t++) {
        matmul_case(others[t], 1, 17, 96, 1, true);
        matmul_case(others[t], 5, 9, 64, 3, false);
        matmul_case(others[t], 19, 30, 608, 0, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
