/* t_cpu_experts.c - the ops of experts and of heads with matrices of their own: rows sorted by expert and back, and no
 * matrix of an expert without rows is read. Every instruction set equals the reference in bits; the references are
 * compared with straightforward code in double precision. */
#include "rig.h"

#include "ops/expert_rows.h"

static char what[200];

/* ---- ROUTE */

typedef struct route_case {
    int score, experts, used, groups, groups_used, group_best;
    bool renorm, bias, scale, ties;
    float factor;
} route_case;

/* The place among all experts by choice, ties to the lowest id; those outside allowed groups come last. */
static int rank_of(const double *choice, const bool *allowed, int n, int i)
{
    int rank = 0;
    for (int j = 0; j < n; j++)
        rank += allowed[j] != allowed[i] ? allowed[j] : choice[j] > choice[i] || (choice[j] == choice[i] && j < i);
    return rank;
}

static void expect_route(const route_case *c, const float *logits, const float *bias, const float *scale, double *out)
{
    double score[64], choice[64], sum = 0, most = logits[0], all = 0;
    bool allowed[64];
    for (int i = 0; i < c->experts; i++) most = logits[i] > most ? logits[i] : most;
    for (int i = 0; i < c->experts; i++) sum += exp(logits[i] - most);
    for (int i = 0; i < c->experts; i++) {
        score[i] = c->score == SCORE_SOFTMAX   ? exp(logits[i] - most) / sum
                   : c->score == SCORE_SIGMOID ? 1 / (1 + exp(-(double)logits[i]))
                                               : logits[i];
        choice[i] = (float)score[i] + (bias ? bias[i] : 0);
        allowed[i] = true;
    }
    double worth[64];
    bool every[64];
    for (int k = 0; k < c->groups; k++) {
        double best = -INFINITY, second = -INFINITY;
        for (int i = k * c->experts / c->groups; i < (k + 1) * c->experts / c->groups; i++) {
            if (choice[i] > best) second = best, best = choice[i];
            else if (choice[i] > second) second = choice[i];
        }
        worth[k] = c->group_best == 2 ? best + second : best;
        every[k] = true;
    }
    for (int i = 0; i < c->experts && c->groups; i++)
        allowed[i] = rank_of(worth, every, c->groups, i * c->groups / c->experts) < c->groups_used;
    for (int i = 0; i < c->experts; i++) {
        int rank = rank_of(choice, allowed, c->experts, i);
        out[i] = rank < c->used ? (c->score == SCORE_PICKED ? exp(score[i] - most) : score[i]) : 0;
        all += out[i];
    }
    for (int i = 0; i < c->experts; i++) out[i] *= c->factor / (c->renorm || c->score == SCORE_PICKED ? all : 1);
    for (int i = 0; i < c->experts && scale; i++) out[i] *= scale[i];
}

static void routes(void **unused)
{
    (void)unused;
    static const route_case cases[] = {
        {SCORE_SOFTMAX, 8, 2, .factor = 1},
        {SCORE_SOFTMAX, 7, 3, .factor = 1, .renorm = true},
        {SCORE_SOFTMAX, 64, 6, 8, 3, 1, .factor = 16},
        {SCORE_SOFTMAX, 12, 4, .factor = 1, .renorm = true, .bias = true},
        {SCORE_PICKED, 32, 4, .factor = 1},
        {SCORE_SIGMOID, 16, 1, .factor = 1},
        {SCORE_SIGMOID, 24, 5, 6, 2, 2, .factor = 2.5f, .renorm = true, .bias = true},
        {SCORE_SIGMOID, 24, 8, 3, 1, 2, .factor = 1, .bias = true},
        {SCORE_SOFTMAX, 9, 9, .factor = 1},
        {SCORE_SOFTMAX, 11, 3, .factor = 1, .renorm = true, .scale = true},
        {SCORE_SIGMOID, 24, 5, 6, 2, 2, .factor = 2.5f, .bias = true, .scale = true},
        {SCORE_PICKED, 10, 3, .factor = 1, .ties = true},
        {SCORE_SOFTMAX, 6, 2, 3, 2, 2, .factor = 1, .ties = true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const route_case *c = &cases[k];
        enum { ROWS = 13 };
        double want[64];
        rig g;
        rig_open(&g, 60000);
        g.st.n[AXIS_TOK] = ROWS;
        op o = {.kind = OP_ROUTE,
                .in = {rig_act(&g, c->experts), c->bias ? rig_const(&g, c->experts) : 0,
                       c->scale ? rig_const(&g, c->experts) : 0},
                .out = rig_act(&g, 2 * c->used),
                .u.route = {.score = c->score,
                            .used = c->used,
                            .groups = c->groups,
                            .groups_used = c->groups_used,
                            .group_best = c->group_best,
                            .renorm = c->renorm,
                            .factor = c->factor}};
        float *x = rig_at(&g, o.in[0]);
        for (int i = 0; i < ROWS * c->experts && c->ties; i++) x[i] = floorf(x[i]);
        snprintf(what, sizeof what, "route %zu", k);
        rig_same(&g, &o, what);
        for (int r = 0; r < ROWS; r++) {
            const float *got = rig_at(&g, o.out) + r * 2 * c->used;
            expect_route(c, x + r * c->experts, c->bias ? g.t[o.in[1]].data : NULL, c->scale ? g.t[o.in[2]].data : NULL,
                         want);
            int picked = 0;
            for (int i = 0; i < c->experts; i++) picked += want[i] != 0;
            assert_int_equal(picked, c->used);
            for (int i = 0; i < c->used; i++)
                if (fabs(got[c->used + i] - want[(int)got[i]]) > 2e-6 * c->factor || want[(int)got[i]] == 0)
                    fail_msg("%s, row %d, rank %d: expert %g with weight %g, not %g", what, r, i, (double)got[i],
                             (double)got[c->used + i], want[(int)got[i]]);
        }
        rig_close(&g);
    }
}

/* The published numbers of SparseMixer by hand: near is relative to the larger of |score| and the best. */
static void mixes(void **unused)
{
    (void)unused;
    rig g;
    rig_open(&g, 10000);
    g.st.n[AXIS_TOK] = 2;
    op o = {.kind = OP_ROUTE,
            .in = {rig_act(&g, 4)},
            .out = rig_act(&g, 4),
            .u.route = {.score = SCORE_MIXER, .used = 2, .factor = 1, .near = 0.5f}};
    memcpy(rig_at(&g, o.in[0]), (float[]){1.0f, 4.0f, 3.0f, 2.5f, -1.0f, -1.2f, -1.3f, -9.0f}, 8 * sizeof(float));
    rig_same(&g, &o, "mixer");
    const float *y = rig_at(&g, o.out);
    assert_true(y[0] == 1 && y[1] == 2 && y[4] == 0 && y[5] == 1);
    assert_true(fabs(y[2] - 1 / (1 + exp(-1) + exp(-1.5))) < 1e-6); /* 1.0 is three quarters of 4 below */
    assert_true(fabs(y[3] - 1 / (1 + exp(-0.5))) < 1e-6);
    assert_true(fabs(y[6] - 1 / (1 + exp(-0.2) + exp(-0.3))) < 1e-6); /* -9 is 8 / 9 of its size away */
    rig_close(&g);
}

/* Whatever the scores are, each rank has an expert of its own: later ops rely on it. */
static void bad_scores(void **unused)
{
    (void)unused;
    for (int score = 0; score < SCORE_COUNT; score++)
        for (int groups = 0; groups <= 4; groups += 2) {
            rig g;
            rig_open(&g, 20000);
            g.st.n[AXIS_TOK] = 5;
            op o = {.kind = OP_ROUTE,
                    .in = {rig_act(&g, 8)},
                    .out = rig_act(&g, 8),
                    .u.route = {
                        .score = score, .used = 4, .groups = groups, .groups_used = 2, .group_best = 2, .factor = 1}};
            float *x = rig_at(&g, o.in[0]);
            for (int i = 0; i < 40; i++)
                x[i] = i < 8 ? NAN : i < 16 ? -INFINITY : i < 24 ? INFINITY : i % 3 ? NAN : x[i];
            rig_run(&g, cpu_kernels_named("c"), 1, &o);
            for (int r = 0; r < 5; r++) {
                unsigned seen = 0;
                for (int k = 0; k < 4; k++) {
                    float id = rig_at(&g, o.out)[r * 8 + k];
                    assert_true(id >= 0 && id < 8 && !(seen >> (int)id & 1));
                    seen |= 1u << (int)id;
                }
            }
            rig_close(&g);
        }
}

/* ---- there and back */

/* Random experts for each row, all different: what ROUTE would write. */
static void fill_route(float *route, int rows, int used, int experts, int only_even)
{
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < used; k++) {
            bool taken = true;
            while (taken) {
                int id = (int)(rig_random() % (unsigned)experts);
                if (only_even) id &= ~1;
                taken = false;
                for (int j = 0; j < k; j++) taken = taken || (int)route[r * 2 * used + j] == id;
                route[r * 2 * used + k] = (float)id;
            }
            route[r * 2 * used + used + k] = 0.1f + fabsf(rig_normal());
        }
}

static ref dispatch(rig *g, ref route, int rows, int used, int experts)
{
    op o = {.kind = OP_DISPATCH,
            .in = {route},
            .out = rig_act_of(g, AXIS_EXP, rows * used, DISPATCH_COLS),
            .u.dispatch = {experts, used}};
    g->p.n_used = used;
    rig_same(g, &o, "dispatch");
    return o.out;
}

static void sorted_and_summed(void **unused)
{
    (void)unused;
    static const int shapes[][4] = {
        {1, 1, 1, 5}, {1, 4, 8, 33}, {17, 2, 3, 16}, {40, 6, 64, 7}}; /* rows used experts dim */
    for (int i = 0; i < 4; i++) {
        int rows = shapes[i][0], used = shapes[i][1], experts = shapes[i][2], dim = shapes[i][3];
        rig g;
        rig_open(&g, 200000);
        g.st.n[AXIS_TOK] = rows;
        ref route = rig_act(&g, 2 * used), x = rig_act(&g, dim), back = rig_act(&g, dim);
        float *w = rig_at(&g, route);
        fill_route(w, rows, used, experts, 0);
        ref table = dispatch(&g, route, rows, used, experts), sent = rig_act_of(&g, AXIS_EXP, rows * used, dim);
        const int32_t *t = (const int32_t *)(const void *)rig_at(&g, table);
        for (int k = 1; k < rows * used; k++) { /* sorted by expert, then by token row */
            const int32_t *a = t + (k - 1) * DISPATCH_COLS, *b = t + k * DISPATCH_COLS;
            assert_true(a[DISPATCH_EXPERT] < b[DISPATCH_EXPERT] ||
                        (a[DISPATCH_EXPERT] == b[DISPATCH_EXPERT] && a[DISPATCH_ROW] < b[DISPATCH_ROW]));
        }
        for (int weigh = 0; weigh < 2; weigh++) {
            op in = {.kind = OP_GATHER, .in = {x, table, weigh ? route : 0}, .out = sent};
            snprintf(what, sizeof what, "gather %d, weights %d", i, weigh);
            rig_same(&g, &in, what);
            op out = {.kind = OP_SCATTER, .in = {sent, table, weigh ? 0 : route}, .out = back};
            snprintf(what, sizeof what, "scatter %d, weights %d", i, !weigh);
            rig_same(&g, &out, what);
            for (int r = 0; r < rows; r++) {
                double sum = 0;
                for (int k = 0; k < used; k++) sum += w[r * 2 * used + used + k];
                for (int k = 0; k < dim; k++) {
                    double want = sum * rig_at(&g, x)[r * dim + k];
                    if (fabs(rig_at(&g, back)[r * dim + k] - want) > 1e-5 * (1 + fabs(want)))
                        fail_msg("%s: row %d is not its experts' sum", what, r);
                }
            }
        }
        rig_close(&g);
    }
}

/* A number of each row's expert; 0 for those that are not here. */
static void experts_have_numbers(void **unused)
{
    (void)unused;
    enum { ROWS = 9, USED = 3, EXPERTS = 7, HERE = 4 };
    rig g;
    rig_open(&g, 20000);
    g.st.n[AXIS_TOK] = ROWS;
    ref route = rig_act(&g, 2 * USED), numbers = rig_const(&g, HERE), out = rig_act_of(&g, AXIS_EXP, ROWS * USED, 1);
    g.t[numbers].rank = 2;
    g.t[numbers].dim[1] = 1;
    fill_route(rig_at(&g, route), ROWS, USED, EXPERTS, 0);
    ref table = dispatch(&g, route, ROWS, USED, HERE);
    op o = {.kind = OP_EMBED, .in = {numbers, table}, .out = out, .u.embed.by = EMBED_BY_EXPERT};
    rig_same(&g, &o, "numbers of experts");
    const int32_t *t = (const int32_t *)(const void *)rig_at(&g, table);
    int away = 0;
    for (int r = 0; r < ROWS * USED; r++) {
        const int32_t expert = t[r * DISPATCH_COLS + DISPATCH_EXPERT];
        away += expert < 0;
        assert_true(rig_at(&g, out)[r] == (expert < 0 ? 0 : g.t[numbers].data[expert]));
    }
    assert_true(away > 0 && away < ROWS * USED);
    rig_close(&g);
}

/* ---- MATMUL_EXP */

typedef struct exp_case {
    int rows, used, experts, n, k;
    dtype type;
    bool bias, parts, even; /* parts: each expert has a place of its own; even: the others have no rows */
} exp_case;

static void matmul_case(const exp_case *c)
{
    rig g;
    int rows = c->rows * c->used;
    rig_open(&g, (uint64_t)(rows + c->rows) * (uint64_t)(c->n + c->k + 2 * c->used + 8) * 4);
    g.st.n[AXIS_TOK] = c->rows;
    ref route = rig_act(&g, 2 * c->used);
    fill_route(rig_at(&g, route), c->rows, c->used, c->experts, c->even);
    ref table = dispatch(&g, route, c->rows, c->used, c->experts);
    const int32_t *t = (const int32_t *)(const void *)rig_at(&g, table);
    op o = {.kind = OP_MATMUL_EXP,
            .in = {rig_act_of(&g, AXIS_EXP, rows, c->k), rig_weight(&g, c->type, c->experts * c->n, c->k, 0),
                   c->bias ? rig_const(&g, c->experts * c->n) : 0, table},
            .out = rig_act_of(&g, AXIS_EXP, rows, c->n)};
    held_weight *w = &g.held[0], whole = *w;
    const uint8_t *part[64] = {0};
    bool used[64] = {0};
    for (int i = 0; i < rows; i++) used[t[i * DISPATCH_COLS + DISPATCH_EXPERT]] = true;
    for (int e = 0; e < c->experts && c->parts; e++) /* who has no rows is at no address that could be read */
        part[e] = used[e] ? w->data + (uint64_t)(e * c->n) * w->stride : (const uint8_t *)16;
    if (c->parts) w->part = part;
    for (int e = 0; e < c->experts && !c->parts && c->type == DTYPE_F32; e++) /* or poison */
        if (!used[e]) memset((uint8_t *)w->data + (uint64_t)(e * c->n) * w->stride, 0xff, (uint64_t)c->n * w->stride);
    snprintf(what, sizeof what, "matmul_exp %s, %d rows to %d of %d, %d x %d", dtype_info[c->type].name, c->rows,
             c->used, c->experts, c->n, c->k);
    rig_same(&g, &o, what);
    float *row = mem_array((size_t)c->k, 4);
    assert_non_null(row);
    for (int i = 0; i < rows; i++) {
        int e = t[i * DISPATCH_COLS + DISPATCH_EXPERT];
        for (int j = 0; j < c->n; j += 1 + c->n / 5) {
            held_row(&whole, e * c->n + j, row);
            double s = c->bias ? g.t[o.in[2]].data[e * c->n + j] : 0, size = 1;
            for (int k = 0; k < c->k; k++) {
                double term = (double)row[k] * rig_at(&g, o.in[0])[i * c->k + k];
                s += term;
                size += fabs(term);
            }
            if (!(fabs(s - rig_at(&g, o.out)[i * c->n + j]) <= 2e-7 * size)) fail_msg("%s: wrong value", what);
        }
    }
    mem_free(row);
    rig_close(&g);
}

static void experts_multiply(void **unused)
{
    (void)unused;
    static const exp_case cases[] = {
        {1, 1, 1, 3, 5, DTYPE_F32},
        {1, 2, 8, 40, 33, DTYPE_F16, .parts = true},
        {1, 4, 9, 130, 64, DTYPE_BF16, .bias = true, .parts = true},
        {9, 2, 8, 23, 47, DTYPE_F32, .bias = true, .even = true},
        {9, 2, 8, 23, 47, DTYPE_F32, .parts = true, .even = true},
        {33, 3, 7, 50, 96, DTYPE_BF16, .even = true},
        {70, 2, 4, 29, 400, DTYPE_F16, .bias = true},
        {230, 1, 2, 26, 90, DTYPE_F32, .bias = true, .even = true}, /* one expert, two blocks of rows */
        {20, 2, 5, 21, 64, DTYPE_Q8_0, .parts = true},
        {5, 3, 64, 10, 96, DTYPE_Q4_0, .bias = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) matmul_case(&cases[i]);
}

/* One number for each row multiplies all of it. */
static void rows_are_scaled(void **unused)
{
    (void)unused;
    for (int n = 1; n < 60; n += 11) {
        rig g;
        rig_open(&g, 60000);
        g.st.n[AXIS_TOK] = 37;
        op o = {.kind = OP_MUL, .in = {rig_act(&g, n), rig_act(&g, 1)}, .out = rig_act(&g, n)};
        rig_same(&g, &o, "mul by rows");
        for (int i = 0; i < 37 * n; i++)
            assert_true(rig_at(&g, o.out)[i] == rig_at(&g, o.in[0])[i] * rig_at(&g, o.in[1])[i / n]);
        rig_close(&g);
    }
}

/* ---- heads */

static void heads_multiply(void **unused)
{
    (void)unused;
    static const int shapes[][4] = {{1, 1, 3, 5}, {1, 16, 70, 24}, {7, 4, 9, 33}, {40, 3, 50, 16}, {200, 2, 26, 90}};
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F32, DTYPE_F16};
    for (int i = 0; i < 10; i++) {
        int rows = shapes[i / 2][0], heads = shapes[i / 2][1], n = shapes[i / 2][2], k = shapes[i / 2][3];
        rig g;
        rig_open(&g, (uint64_t)rows * (uint64_t)(heads * (n + k)) * 4);
        g.st.n[AXIS_TOK] = rows;
        op o = {.kind = OP_MATMUL_HEADS,
                .in = {rig_act(&g, heads * k), rig_weight(&g, types[i / 2], heads * n, k, 0)},
                .out = rig_act(&g, heads * n)};
        held_weight *w = &g.held[0], whole = *w;
        const uint8_t *part[16];
        for (int h = 0; h < heads; h++) part[h] = w->data + (uint64_t)(h * n) * w->stride;
        if (i % 2) w->part = part;
        g.w[0].parts = heads;
        snprintf(what, sizeof what, "matmul_heads %s, %d rows, %d heads of %d x %d", dtype_info[types[i / 2]].name,
                 rows, heads, n, k);
        rig_same(&g, &o, what);
        float row[96];
        for (int m = 0; m < rows; m += 1 + rows / 4)
            for (int j = 0; j < heads * n; j += 1 + n / 3) {
                double s = 0, size = 1;
                held_row(&whole, j, row);
                for (int e = 0; e < k; e++) {
                    double term = (double)row[e] * rig_at(&g, o.in[0])[m * heads * k + j / n * k + e];
                    s += term;
                    size += fabs(term);
                }
                if (fabs(s - rig_at(&g, o.out)[m * heads * n + j]) > 2e-7 * size) fail_msg("%s: wrong value", what);
            }
        rig_close(&g);
    }
}

static void heads_join(void **unused)
{
    (void)unused;
    rig g;
    rig_open(&g, 60000);
    g.st.n[AXIS_TOK] = 11;
    op o = {.kind = OP_JOIN, .in = {rig_act(&g, 3 * 7), rig_act(&g, 3 * 4)}, .out = rig_act(&g, 3 * 11), .u.join = {3}};
    rig_same(&g, &o, "join");
    for (int i = 0; i < 33; i++)
        for (int k = 0; k < 11; k++) {
            float want = k < 7 ? rig_at(&g, o.in[0])[i * 7 + k] : rig_at(&g, o.in[1])[i * 4 + k - 7];
            assert_true(rig_at(&g, o.out)[i * 11 + k] == want);
        }
    rig_close(&g);
}

/* ---- where weights lie */

/* Puts a weight and compares every row of every part with the definition; `apart`: it must be used where it lies. */
static void put_case(piece *pieces, uint32_t n, int parts, int rows, int cols, bool apart)
{
    err e = {0};
    weight_set d = {0};
    held_weight held[1] = {0};
    float want[16], got[16];
    program *p = program_new(&e);
    for (uint32_t i = 0; i < n; i++) pieces[i].mul = 1;
    weight w = {.name = "w", .pieces = pieces, .n_piece = n, .rows = parts * rows, .cols = cols, .parts = parts};
    assert_int_equal(program_weight(p, &w, &e), 0);
    d.p = p;
    d.held = held;
    d.threads = 2;
    assert_ok(cpu_weight_put(&d, 0, &e), &e);
    assert_ok(cpu_weights_read(&d, &e), &e);
    assert_true((held[0].own == NULL) == apart);
    for (int i = 0; i < parts; i++)
        for (int k = 0; k < rows; k++) {
            held_weight part = held_part(&held[0], i, rows);
            held_row(&part, k, got);
            weight_decode_row(&w, i * rows + k, want);
            assert_memory_equal(got, want, (size_t)cols * sizeof *got);
        }
    cpu_weight_drop(&held[0]);
    program_free(p);
}

#define PIECE(...)                                                                                                     \
    {                                                                                                                  \
        .type = DTYPE_F32, .data = (const uint8_t *)file, __VA_ARGS__                                                  \
    }

static void experts_lie_in_the_file(void **unused)
{
    (void)unused;
    float file[96];
    for (int i = 0; i < 96; i++) file[i] = (float)i;
    const uint8_t *later = (const uint8_t *)(file + 48);
    /* one tensor for each, of the same size, the second before the first */
    piece each[] = {PIECE(.src_rows = 4, .src_cols = 3, .rows = 4, .block = 4, .stride = 4),
                    PIECE(.src_rows = 4, .src_cols = 3, .rows = 4, .block = 4, .stride = 4)};
    each[0].data = later;
    put_case(each, 2, 2, 4, 3, true);
    /* the upper halves of [3][4, 3] */
    piece halves[] = {PIECE(.src_rows = 12, .src_cols = 3, .rows = 2, .block = 2, .stride = 2, .row0 = 2),
                      PIECE(.src_rows = 12, .src_cols = 3, .rows = 2, .block = 2, .stride = 2, .row0 = 6),
                      PIECE(.src_rows = 12, .src_cols = 3, .rows = 2, .block = 2, .stride = 2, .row0 = 10)};
    put_case(halves, 3, 3, 2, 3, true);
    /* every other row of each */
    piece others[] = {PIECE(.src_rows = 8, .src_cols = 3, .rows = 2, .block = 1, .stride = 2, .row0 = 1),
                      PIECE(.src_rows = 8, .src_cols = 3, .rows = 2, .block = 1, .stride = 2, .row0 = 5)};
    put_case(others, 2, 2, 2, 3, false);
    /* stored [2][5, 6] transposed, every other column */
    piece turned[] = {
        PIECE(.src_rows = 10, .src_cols = 6, .rows = 3, .block = 1, .stride = 2, .transpose = true),
        PIECE(.src_rows = 10, .src_cols = 6, .rows = 3, .block = 1, .stride = 2, .transpose = true, .col0 = 5)};
    put_case(turned, 2, 2, 3, 5, false);
    float row[5];
    weight w = {.pieces = turned, .n_piece = 2, .rows = 6, .cols = 5};
    weight_decode_row(&w, 4, row); /* second matrix, column 2 */
    for (int k = 0; k < 5; k++) assert_true(row[k] == (float)((5 + k) * 6 + 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(routes),
                                       cmocka_unit_test(mixes),
                                       cmocka_unit_test(bad_scores),
                                       cmocka_unit_test(sorted_and_summed),
                                       cmocka_unit_test(experts_have_numbers),
                                       cmocka_unit_test(experts_multiply),
                                       cmocka_unit_test(rows_are_scaled),
                                       cmocka_unit_test(heads_multiply),
                                       cmocka_unit_test(heads_join),
                                       cmocka_unit_test(experts_lie_in_the_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
