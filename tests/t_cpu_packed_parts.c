/* t_cpu_packed_parts.c - packed stacks with int8 activations: QUANT of rows sorted by expert, MATMUL_EXP, MATMUL_HEADS.
 * Every instruction set equals the reference in bits, a row's result is that of a MATMUL of this row alone by its
 * expert's (its head's) matrix, and nobody's panels are read who has no rows. */
#include "rig.h"

#include "ops/expert_rows.h"
#include "tensor/act_q8.h"

static char what[200];

/* A weight in panels; its rows are a multiple of 16. */
static ref packed_weight(rig *g, dtype type, int64_t rows, int64_t cols)
{
    ref t = rig_weight(g, type, rows, cols, 0);
    uint32_t i = g->t[t].weight;
    held_weight *w = &g->held[i];
    uint64_t panel = panel_bytes(type, cols);
    uint8_t *to = mem_alloc(panel * (uint64_t)(rows / PANEL_ROWS));
    assert_non_null(to);
    for (int64_t n = 0; n < rows; n += PANEL_ROWS) {
        const uint8_t *from[PANEL_ROWS];
        for (int r = 0; r < PANEL_ROWS; r++) from[r] = w->data + (uint64_t)(n + r) * w->stride;
        panel_pack(type, from, cols, to + (uint64_t)(n / PANEL_ROWS) * panel);
    }
    mem_free(g->own[g->n_own - 1]); /* the blocks */
    g->own[g->n_own - 1] = to;
    w->data = to;
    w->stride = panel;
    w->packed = g->w[i].packed = true;
    return t;
}

static ref codes_like(rig *g, ref x, int block)
{
    ref t = rig_act_of(g, g->t[x].axis, g->st.n[g->t[x].axis], g->t[x].dim[0]);
    g->t[t].block = (uint8_t)block;
    return t;
}

/* One row (a copy of `row`) by weight `w` alone, as floats in place of the result. */
typedef struct alone {
    ref x, codes, w, y;
} alone;

static alone alone_open(rig *g, int64_t n, int64_t k, int block)
{
    alone a = {.x = rig_act_of(g, AXIS_OUT, 1, k)};
    a.codes = codes_like(g, a.x, block);
    a.y = rig_act_of(g, AXIS_OUT, 1, n);
    a.w = g->p.n_tensor++;
    assert_true(a.w < RIG_TENSORS);
    g->t[a.w] = (tensor){.kind = TENSOR_WEIGHT, .rank = 2, .dim = {n, k}, .weight = g->p.n_weight++};
    return a;
}

static const float *alone_run(rig *g, const alone *a, const held_weight *w, const float *row)
{
    memcpy(rig_at(g, a->x), row, (size_t)w->cols * sizeof *row);
    g->held[g->t[a->w].weight] = *w;
    op quant = {.kind = OP_QUANT, .in = {a->x}, .out = a->codes};
    op multiply = {.kind = OP_MATMUL, .in = {a->codes, a->w}, .out = a->y};
    rig_run(g, cpu_kernels_named("c"), 1, &quant);
    rig_run(g, cpu_kernels_named("c"), 1, &multiply);
    return rig_at(g, a->y);
}

/* ---- experts */

typedef struct exp_case {
    int rows, experts, n, k; /* rows: of experts, those with an odd number have none */
    bool bias;
} exp_case;

/* Rows sorted by expert. */
static ref table_of(rig *g, const exp_case *c)
{
    ref table = rig_act_of(g, AXIS_EXP, c->rows, DISPATCH_COLS);
    int32_t *t = (int32_t *)(void *)rig_at(g, table), e = 0;
    for (int i = 0; i < c->rows; i++) {
        while (e + 2 < c->experts && rig_random() % (unsigned)c->rows < (unsigned)c->experts) e += 2;
        t[i * DISPATCH_COLS + DISPATCH_ROW] = i;
        t[i * DISPATCH_COLS + DISPATCH_EXPERT] = e;
    }
    return table;
}

static void expert_case(dtype type, const exp_case *c)
{
    rig g;
    int block = panel_format_of(type)->act;
    rig_seed = 77 + (uint64_t)type;
    rig_open(&g, (uint64_t)(c->rows + 2) * (uint64_t)(c->n + 3 * c->k + 8) * 4);
    ref table = table_of(&g, c), x = rig_act_of(&g, AXIS_EXP, c->rows, c->k), codes = codes_like(&g, x, block);
    const int32_t *t = (const int32_t *)(const void *)rig_at(&g, table);
    snprintf(what, sizeof what, "%s, %d rows to %d experts, %d x %d", dtype_info[type].name, c->rows, c->experts, c->n,
             c->k);
    op quant = {.kind = OP_QUANT, .in = {x, table}, .out = codes};
    rig_same(&g, &quant, what);
    op o = {.kind = OP_MATMUL_EXP,
            .in = {codes, packed_weight(&g, type, c->experts * c->n, c->k),
                   c->bias ? rig_const(&g, c->experts * c->n) : 0, table},
            .out = rig_act_of(&g, AXIS_EXP, c->rows, c->n)};
    held_weight whole = g.held[0];
    const uint8_t *part[16];
    for (int e = 0; e < c->experts; e++) part[e] = (const uint8_t *)64; /* an address that cannot be read */
    for (int i = 0; i < c->rows; i++) {
        int e = t[i * DISPATCH_COLS + DISPATCH_EXPERT];
        part[e] = held_part(&whole, e, c->n).data;
    }
    g.held[0].part = part;
    rig_same(&g, &o, what);
    alone a = alone_open(&g, c->n, c->k, block);
    for (int i = 0; i < c->rows; i += 1 + c->rows / 40) {
        int e = t[i * DISPATCH_COLS + DISPATCH_EXPERT];
        held_weight own = held_part(&whole, e, c->n);
        const float *want = alone_run(&g, &a, &own, rig_at(&g, x) + i * c->k);
        for (int j = 0; j < c->n; j++) {
            float v = c->bias ? want[j] + g.t[o.in[2]].data[e * c->n + j] : want[j];
            if (memcmp(&v, &rig_at(&g, o.out)[i * c->n + j], sizeof v))
                fail_msg("%s: row %d is not what it is alone", what, i);
        }
    }
    rig_close(&g);
}

/* Of each format the usual shapes; one format through more rows than a turn takes. */
static void experts_multiply(void **unused)
{
    (void)unused;
    static const exp_case cases[] = {
        {1, 4, 32, 256}, {2, 8, 16, 64, .bias = true}, {23, 5, 48, 320}, {150, 9, 32, 256, .bias = true}};
    for (int t = 1; t < DTYPE_COUNT; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases && panel_format_of((dtype)t); i++)
            if (cases[i].k % dtype_info[t].weights == 0) expert_case((dtype)t, &cases[i]);
    expert_case(DTYPE_Q4_B64, &(exp_case){400, 3, 32, 128});
}

/* ---- heads */

static void heads_case(dtype type, int rows, int heads, int n, int k)
{
    rig g;
    int block = panel_format_of(type)->act;
    rig_open(&g, (uint64_t)(rows + 2) * (uint64_t)(heads + 1) * (uint64_t)(n + 3 * k) * 4);
    ref x = rig_act_of(&g, AXIS_TOK, rows, heads * k);
    op quant = {.kind = OP_QUANT, .in = {x}, .out = codes_like(&g, x, block)};
    op o = {.kind = OP_MATMUL_HEADS,
            .in = {quant.out, packed_weight(&g, type, heads * n, k)},
            .out = rig_act_of(&g, AXIS_TOK, rows, heads * n)};
    g.w[0].parts = heads;
    snprintf(what, sizeof what, "%s, %d rows, %d heads of %d x %d", dtype_info[type].name, rows, heads, n, k);
    rig_run(&g, cpu_kernels_named("c"), 1, &quant);
    rig_same(&g, &o, what);
    held_weight whole = g.held[0];
    alone a = alone_open(&g, n, k, block);
    for (int m = 0; m < rows; m += 1 + rows / 10)
        for (int h = 0; h < heads; h++) {
            held_weight own = held_part(&whole, h, n);
            const float *want = alone_run(&g, &a, &own, rig_at(&g, x) + (m * heads + h) * k);
            if (memcmp(want, rig_at(&g, o.out) + (m * heads + h) * n, (size_t)n * sizeof *want))
                fail_msg("%s: head %d of row %d is not what it is alone", what, h, m);
        }
    rig_close(&g);
}

static void heads_multiply(void **unused)
{
    (void)unused;
    for (int t = 1; t < DTYPE_COUNT; t++) {
        if (!panel_format_of((dtype)t)) continue;
        heads_case((dtype)t, 1, 3, 32, 256);
        heads_case((dtype)t, 19, 2, 48, 256);
    }
    heads_case(DTYPE_Q4_B64, 140, 4, 16, 64);
    heads_case(DTYPE_Q8_0, 7, 16, 16, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(experts_multiply), cmocka_unit_test(heads_multiply)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
