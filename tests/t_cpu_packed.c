/* t_cpu_packed.c - packed weights and int8 activations: the layout against the blocks it was made from, QUANT and
 * MATMUL of every instruction set against their references in every bit, the references against the formula in double
 * precision, batches against single rows. */
#include "random_blocks.h"

#include "tensor/act_q8.h"
#include "tensor/quant_linear.h"
#include "tensor/quant_tables.h"
#include "tensor/panel.h"

static char what[160];

/* In memory that was full of `fill`. */
static uint8_t *packed(dtype t, const uint8_t *blocks, int64_t rows, int64_t cols, int fill)
{
    uint64_t row = dtype_row_bytes(t, (uint64_t)cols), panel = panel_bytes(t, cols);
    uint8_t *to = mem_alloc((uint64_t)(rows + PANEL_ROWS - 1) / PANEL_ROWS * panel);
    assert_non_null(to);
    memset(to, fill, (uint64_t)(rows + PANEL_ROWS - 1) / PANEL_ROWS * panel);
    for (int64_t n = 0; n < rows; n += PANEL_ROWS) {
        const uint8_t *from[PANEL_ROWS] = {NULL};
        for (int r = 0; r < PANEL_ROWS && n + r < rows; r++) from[r] = blocks + (uint64_t)(n + r) * row;
        panel_pack(t, from, cols, to + (uint64_t)(n / PANEL_ROWS) * panel);
    }
    return to;
}

/* Bits of a packed weight in a row of so many over those of its block. */
static double growth(dtype t, int64_t cols)
{
    double bits = (double)dtype_info[t].bytes / dtype_info[t].weights;
    return (double)panel_bytes(t, cols) / PANEL_ROWS / (double)cols / bits;
}

static void packed_types_are_as_small_as_blocks(void **unused)
{
    (void)unused;
    static const struct {
        dtype first, last;
        double most;
    } range[] = {
        {DTYPE_Q4_0, DTYPE_Q8_1, 1},      {DTYPE_Q2_K, DTYPE_Q8_K, 1.055}, {DTYPE_IQ2_XXS, DTYPE_IQ1_M, 2.21},
        {DTYPE_TQ1_0, DTYPE_TQ2_0, 1.34}, {DTYPE_MXFP4, DTYPE_NVFP4, 1},   {DTYPE_Q1_0, DTYPE_Q2_0, 1.12},
        {DTYPE_Q8_F32, DTYPE_Q2_B32, 1},  {DTYPE_Q4_T, DTYPE_Q2_T, 1},     {DTYPE_F8_B128, DTYPE_NVFP4_F32, 1}};
    for (int t = DTYPE_Q4_0; t < DTYPE_NF4; t++) {
        assert_non_null(panel_format_of((dtype)t)); /* all block types; levels of NF4 are no integers */
        for (size_t i = 0; i < sizeof range / sizeof *range; i++)
            if (t >= (int)range[i].first && t <= (int)range[i].last && growth((dtype)t, 1024) > range[i].most)
                fail_msg("%s: %g times the bits", dtype_info[t].name, growth((dtype)t, 1024));
        /* a row that ends early in a span has not all of its picks */
        if (tables_format_of((dtype)t)) assert_true(growth((dtype)t, 576) < 1.04);
    }
}

static bool same_values(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (float_bits(a[i]) != float_bits(b[i]) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void packing_loses_nothing(void **unused)
{
    (void)unused;
    enum { ROWS = 21, COLS_MAX = 768 };
    float want[COLS_MAX], got[COLS_MAX];
    for (int form = 0; form < 4 * DTYPE_COUNT; form++) {
        dtype t = (dtype)(form / 4);
        if (!panel_format_of(t)) continue;
        int64_t cols = form % 2 ? 3 * dtype_info[t].weights : 333;
        uint64_t row = dtype_row_bytes(t, (uint64_t)cols), panel = panel_bytes(t, cols);
        uint8_t *blocks = random_blocks(t, ROWS, cols, form % 4 > 1), *p = packed(t, blocks, ROWS, cols, 0),
                *again = packed(t, blocks, ROWS, cols, 255);
        assert_memory_equal(p, again, 2 * panel); /* no byte is left out */
        for (int64_t n = 0; n < ROWS; n++) {
            quant_decode_row(t, blocks + (uint64_t)n * row, want, (uint64_t)cols);
            panel_row(t, p + (uint64_t)(n / PANEL_ROWS) * panel, (int)(n % PANEL_ROWS), cols, got);
            if (!same_values(want, got, cols)) fail_msg("%s: row %d changes", dtype_info[t].name, (int)n);
        }
        mem_free(blocks);
        mem_free(again);
        mem_free(p);
    }
}

static ref quantized_act(rig *g, int64_t dim, int block)
{
    ref t = rig_act(g, dim);
    g->t[t].block = (uint8_t)block;
    return t;
}

/* Odd lengths, zeros, and values without a code. */
static void quant_equals_the_reference(void **unused)
{
    (void)unused;
    static const int count[] = {1, 2, 7, 8, 9, 17, 40};
    for (int form = 0; form < 56; form++) {
        rig g;
        int rows[] = {count[form % 7]}, last[] = {63}, block = form % 2 ? 64 : 32, dim = (int[]){96, 200, 64}[form % 3];
        rig_open(&g, 200000);
        rig_sequences(&g, 1, rows, last);
        op o = {.kind = OP_QUANT,
                .in = {rig_act(&g, dim)},
                .out = quantized_act(&g, dim, block),
                .u.quant.residual = form >= 28};
        float *x = rig_at(&g, o.in[0]);
        for (int i = 0; i < 32; i++) x[i] = 0;
        int plain = form % 28; /* what is in the row; from 28 on what the codes leave of it */
        if (plain > 20) x[40] = (float[]){NAN, INFINITY, 1e-38f, -INFINITY, 3e38f, -3e-31f, 1e-45f}[plain - 21];
        snprintf(what, sizeof what, "quant form %d", form);
        rig_same(&g, &o, what);
        for (int m = 0; m < rows[0]; m++) {
            row_tile t = row_tile_at(rows[0], row_tile_of(rows[0], m));
            act_part p = act_parts((uint8_t *)rig_at(&g, o.out), t, dim, block);
            assert_true(m >= t.row0 && m < t.row0 + t.rows && t.rows <= ACT_ROWS);
            for (int k = 0; k < dim && plain <= 20; k++) {
                int64_t at = m - t.row0;
                const float *from = x + m * dim + k / block * block;
                float s = p.scale[k / block * t.rows + at];
                double got = (double)s * p.code[(k / 4 * t.rows + at) * 4 + k % 4];
                if (o.u.quant.residual) {
                    act_block first;
                    act_encode(from, dim - k / block * block < block ? dim - k / block * block : block, block, &first);
                    got += (double)first.scale * first.code[k % block];
                    assert_true(s <= first.scale / 250);
                }
                if (fabs(got - (double)x[m * dim + k]) > 0.5001 * (double)s) fail_msg("%s: element %d", what, k);
            }
        }
        rig_close(&g);
    }
}

/* Output n of row m in double precision, from the codes of the activations as they are in memory. */
static double product(const rig *g, ref x, const float *w, int64_t cols, int64_t rows, int64_t m, int block)
{
    row_tile t = row_tile_at(rows, row_tile_of(rows, m));
    act_part p = act_parts(g->act + g->t[x].off, t, cols, block);
    double y = 0;
    for (int64_t k = 0; k < cols; k++)
        y += (double)w[k] * (double)p.scale[k / block * t.rows + m - t.row0] *
             p.code[(k / 4 * t.rows + m - t.row0) * 4 + k % 4];
    return y;
}

static void one_matmul(dtype t, int count, int64_t n, int64_t cols, bool with_bias, float *keep)
{
    const panel_format *f = panel_format_of(t);
    rig g;
    int rows[] = {count}, last[] = {count - 1};
    rig_seed = 4242 + (uint64_t)t;
    uint8_t *blocks = random_blocks(t, n, cols, false), *p = packed(t, blocks, n, cols, 0);
    rig_open(&g, (uint64_t)count * (uint64_t)(2 * cols + n) * 4);
    rig_sequences(&g, 1, rows, last);
    op quant = {.kind = OP_QUANT, .in = {rig_act(&g, cols)}};
    quant.out = quantized_act(&g, cols, f->act);
    rig_run(&g, cpu_kernels_named("c"), 1, &quant);
    g.w[0] = (weight){.name = "w", .rows = n, .cols = cols, .packed = true};
    g.held[0] = (held_weight){
        .data = p, .type = t, .stride = panel_bytes(t, cols), .packed = true, .rows = n, .cols = cols};
    g.t[g.p.n_tensor] = (tensor){.kind = TENSOR_WEIGHT, .rank = 2, .dim = {n, cols}};
    op o = {.kind = OP_MATMUL, .in = {quant.out, g.p.n_tensor++}};
    g.p.n_weight = 1;
    if (with_bias) o.in[2] = rig_const(&g, n);
    o.out = rig_act(&g, n);
    for (int way = 0; way < (count <= FETCH_ROWS ? FETCH_WAYS : 1); way++) {
        memset(g.held[0].way, way, sizeof g.held[0].way);
        snprintf(what, sizeof what, "%s, %d rows, %d x %d, fetched by way %d", dtype_info[t].name, count, (int)n,
                 (int)cols, way);
        rig_same(&g, &o, what);
    }
    const float *y = rig_at(&g, o.out);
    float *w = mem_array((size_t)cols, 4);
    for (int64_t i = 0; i < n; i += 5) {
        quant_decode_row(t, blocks + (uint64_t)i * dtype_row_bytes(t, (uint64_t)cols), w, (uint64_t)cols);
        for (int64_t m = 0; m < count; m += 3) {
            double want = product(&g, quant.out, w, cols, count, m, f->act) +
                          (with_bias ? (double)g.t[o.in[2]].data[i] : 0);
            if (fabs(want - (double)y[m * n + i]) > 2e-4 * (1 + fabs(want)))
                fail_msg("%s: [%d][%d] is %g, not %g", what, (int)m, (int)i, (double)y[m * n + i], want);
        }
    }
    if (keep) memcpy(keep, y, (size_t)(count * n) * 4);
    mem_free(w);
    mem_free(blocks);
    mem_free(p);
    rig_close(&g);
}

static void matmul_equals_the_reference(void **unused)
{
    (void)unused;
    static const int64_t cols[] = {64, 512, 333, 704};
    for (int t = 1; t < DTYPE_COUNT; t++)
        for (int i = 1; i < 28 && panel_format_of((dtype)t); i++)
            one_matmul((dtype)t,
                       i < 26   ? i
                       : i < 27 ? 135
                                : 512,
                       i % 2 ? 37 : 48, cols[i % 4], i % 4 == 1 || i == 27, NULL);
}

/* A row's result is the same alone and among 20; the rows are the first of one random series. */
static void rows_do_not_see_each_other(void **unused)
{
    (void)unused;
    enum { ROWS = 20, N = 19, COLS = 64 };
    static float all[ROWS * N], some[ROWS * N];
    for (int t = 1; t < DTYPE_COUNT; t++) {
        if (!panel_format_of((dtype)t)) continue;
        one_matmul((dtype)t, ROWS, N, COLS, false, all);
        for (int count = 1; count < ROWS; count += 6) {
            one_matmul((dtype)t, count, N, COLS, false, some);
            assert_memory_equal(all, some, (size_t)(count * N) * sizeof *all);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_types_are_as_small_as_blocks), cmocka_unit_test(packing_loses_nothing),
        cmocka_unit_test(quant_equals_the_reference),          cmocka_unit_test(matmul_equals_the_reference),
        cmocka_unit_test(rows_do_not_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
