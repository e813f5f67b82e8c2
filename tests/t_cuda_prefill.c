/* t_cuda_prefill.c - packed weights times many rows on devices that are programs here (tests/gpu): the bits of the
 * definition for every type; on the CUDA backend those of the reference, for rows and outputs that fill no block of
 * threads, with a bias, by head. TYPE=q4_b64: that type alone. CUDA_TESTS=all: 2048 rows too. */
#ifdef HAVE_CUDA
#include "cuda_op_rig.h"
#include "product_rig.h"

#include "tensor/act_q8.h"

typedef struct product_case {
    int rows, outputs, cols, heads;
    bool bias;
} product_case;

/* The weight as blocks, which the backend packs, and in panels for the reference. */
static ref add_weight(rig *g, dtype type, const product_case *c, piece *file)
{
    const uint32_t i = g->p.n_weight++;
    const ref t = g->p.n_tensor++;
    const uint64_t row = dtype_row_bytes(type, (uint64_t)c->cols), panel = panel_bytes(type, c->cols);
    uint8_t *blocks = random_blocks(type, c->outputs, c->cols, false),
            *to = rig_own(g, (uint64_t)(c->outputs + PANEL_ROWS - 1) / PANEL_ROWS * panel);
    g->own[g->n_own++] = blocks;
    for (int n = 0; n < c->outputs; n += PANEL_ROWS) {
        const uint8_t *from[PANEL_ROWS] = {NULL};
        for (int r = 0; r < PANEL_ROWS && n + r < c->outputs; r++) from[r] = blocks + (uint64_t)(n + r) * row;
        panel_pack(type, from, c->cols, to + (uint64_t)(n / PANEL_ROWS) * panel);
    }
    *file = (piece){.data = blocks,
                    .type = type,
                    .src_rows = c->outputs,
                    .src_cols = c->cols,
                    .rows = c->outputs,
                    .block = c->outputs,
                    .stride = c->outputs,
                    .mul = 1};
    g->w[i] = (weight){.name = "w", .rows = c->outputs, .cols = c->cols, .pieces = file, .n_piece = 1};
    g->t[t] = (tensor){.kind = TENSOR_WEIGHT, .rank = 2, .dim = {c->outputs, c->cols}, .weight = i};
    g->held[i] = (held_weight){
        .data = to, .type = type, .stride = panel, .packed = true, .rows = c->outputs, .cols = c->cols};
    return t;
}

static void compare_case(const product_case *c, dtype type)
{
    static rig g;
    piece file;
    const int n_seq = 1, width = c->cols * (c->heads ? c->heads : 1);
    rig_open(&g, (uint64_t)c->rows * (uint64_t)(3 * width + c->outputs) * sizeof(float));
    rig_sequences(&g, n_seq, &c->rows, (int[]){c->rows - 1});
    const ref x = rig_act(&g, width), codes = rig_act(&g, width);
    g.t[codes].block = (uint8_t)panel_format_of(type)->act;
    op ops[2] = {{.kind = OP_QUANT, .in = {x}, .out = codes}, {.kind = c->heads ? OP_MATMUL_HEADS : OP_MATMUL}};
    ops[1].in[0] = codes;
    ops[1].in[1] = add_weight(&g, type, c, &file);
    if (c->bias) ops[1].in[2] = rig_const(&g, c->outputs);
    ops[1].out = rig_act(&g, c->outputs);
    const int64_t all = (int64_t)c->rows * c->outputs;
    float *got = mem_array((size_t)all, sizeof *got);
    assert_non_null(got);
    for (int i = 0; i < 2; i++) rig_run(&g, cpu_kernels_named("c"), 1, &ops[i]);
    cuda_op_run(&g, ops, 2, x, 1, got);
    const float *want = rig_at(&g, ops[1].out);
    for (int64_t i = 0; i < all; i++)
        if (memcmp(&want[i], &got[i], sizeof *got) && (want[i] == want[i] || got[i] == got[i]))
            fail_msg("%s, %d rows: row %d, output %d is %g, not %g", dtype_info[type].name, c->rows,
                     (int)(i / c->outputs), (int)(i % c->outputs), (double)got[i], (double)want[i]);
    mem_free(got);
    rig_close(&g);
}

static void every_type(void **unused)
{
    (void)unused;
    static const product_size s = {41, 40, 768, 1, 1, 1};
    const char *only = getenv("TYPE");
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (panel_format_of((dtype)t) && (!only || !strcmp(only, dtype_info[t].name)))
            check((dtype)t, s, NULL, 1, false);
}

static void shapes(void **unused)
{
    (void)unused;
    static const product_case cases[] = {
        {.rows = 129, .outputs = 136, .cols = 64},
        {.rows = 130, .outputs = 16, .cols = 192, .bias = true},
        {.rows = 300, .outputs = 300, .cols = 320},
        {.rows = 140, .outputs = 256, .cols = 128, .heads = 2},
        {.rows = 129, .outputs = 96, .cols = 64, .heads = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !getenv("TYPE"); i++) {
        compare_case(&cases[i], DTYPE_Q4_B64);
        compare_case(&cases[i], DTYPE_Q8_0);
        if (cases[i].cols % 256 == 0) compare_case(&cases[i], DTYPE_Q4_K);
    }
    if (getenv("CUDA_TESTS")) check(DTYPE_Q4_B64, (product_size){2048, 80, 256, 1, 1, 1}, NULL, 1, false);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type), cmocka_unit_test(shapes)};
    by_many = true;
    return cmocka_run_group_tests(tests, open_device, close_device);
}
#else
#include "cuda_rig.h"

int main(void) { return cuda_rig_open(); }
#endif
