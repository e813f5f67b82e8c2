/* t_cpu_attn_heads.c - ATTN of a rank: some of the query heads, and of the cache only the heads that they read, give
 * the bits of the same heads of the uncut op, whatever the cache, mask and biases, on every instruction set. */
#include "rig.h"

enum { REACH = 12, BUCKETS = 5, RANKS_MAX = 5 };

typedef struct heads_case {
    int heads, kv, k_dim, v_dim, window, bias;
    int ahead, chunk;
    bool sinks;
    int border[RANKS_MAX + 1]; /* a rank has query heads border[i] … border[i + 1] - 1 */
    int n_seq, rows[4], last[4];
} heads_case;

static const heads_case cases[] = {
    {14, 2, 32, 32, .border = {0, 4, 11, 14}, .n_seq = 2, .rows = {1, 30}, .last = {200, 90}},
    {14, 2, 64, 64, .border = {4, 11}, .n_seq = 1, .rows = {1}, .last = {2100}, .sinks = true}, /* ranges are shared */
    {12, 4, 16, 48, .border = {0, 1, 2, 7, 12}, .n_seq = 1, .rows = {70}, .last = {1200}, .bias = BIAS_ALIBI},
    {6, 1, 32, 32, .border = {0, 2, 5, 6}, .n_seq = 2, .rows = {3, 1}, .last = {80, 1500}, .bias = BIAS_BUCKETS},
    {6, 6, 24, 40, .border = {0, 1, 4, 6}, .n_seq = 2, .rows = {9, 1}, .last = {40, 700}, .window = 50},
    {10, 5, 32, 16, .border = {1, 9}, .n_seq = 1, .rows = {20}, .last = {19}, .bias = BIAS_BUCKETS, .ahead = AHEAD_ALL},
    {71, 1, 16, 16, .border = {0, 60, 71}, .n_seq = 2, .rows = {2, 1}, .last = {70, 600}, .bias = BIAS_ALIBI_BF16},
    {130, 2, 8, 8, .border = {5, 120, 130}, .n_seq = 1, .rows = {4}, .last = {530}}, /* several units of one head */
    {21, 3, 32, 32, .border = {2, 20}, .n_seq = 3, .rows = {1, 1, 1}, .last = {600, 5, 70}, .sinks = true, .chunk = 60},
};

static const dtype kinds[][2] = {{DTYPE_F32, DTYPE_F32},       {DTYPE_F16, DTYPE_F16},       {DTYPE_I16, DTYPE_I16},
                                 {DTYPE_Q8_B64, DTYPE_Q8_B64}, {DTYPE_Q4_B32, DTYPE_Q4_B32}, {DTYPE_Q8_B64, DTYPE_F16}};

static int case_rows(const heads_case *c)
{
    int n = 0;
    for (int i = 0; i < c->n_seq; i++) n += c->rows[i];
    return n;
}

static int case_pages(const heads_case *c)
{
    int n = 0;
    for (int i = 0; i < c->n_seq; i++)
        if (c->last[i] / PAGE_TOKENS + 1 > n) n = c->last[i] / PAGE_TOKENS + 1;
    return n * c->n_seq;
}

/* The op over query heads h0 … h1 - 1; of[]: values of the uncut op's operands in ATTN's order, NULL: random ones. */
static op open_case(rig *g, const heads_case *c, const dtype kind[2], int h0, int h1, const float *const of[4])
{
    const int per_kv = c->heads / c->kv, kv0 = h0 / per_kv, n = h1 - h0, rows = case_rows(c);
    rig_open(g, (uint64_t)rows * (uint64_t)(n * (c->k_dim + c->v_dim)) * 4);
    rig_sequences(g, c->n_seq, c->rows, c->last);
    rig_cache(g, (h1 - 1) / per_kv + 1 - kv0, c->k_dim, c->v_dim, kind[0], kind[1], case_pages(c));
    op o = {.kind = OP_ATTN,
            .u.attn = {
                .scale = 0.2f, .heads = n, .window = c->window, .ahead = c->ahead, .chunk = c->chunk, .bias = c->bias}};
    o.in[ATTN_Q] = rig_act(g, n * c->k_dim);
    if (c->bias) o.in[ATTN_BIAS] = rig_const(g, c->bias == BIAS_BUCKETS ? BUCKETS * n : n);
    if (c->sinks) o.in[ATTN_SINKS] = rig_sinks(g, n);
    if (c->bias == BIAS_BUCKETS) o.in[ATTN_TABLE] = rig_const(g, 2 * REACH + 1);
    o.out = rig_act(g, n * c->v_dim);
    float *bias = o.in[ATTN_BIAS] ? (float *)g->t[o.in[ATTN_BIAS]].data : NULL;
    for (int i = 0; o.in[ATTN_TABLE] && i <= 2 * REACH; i++)
        ((float *)g->t[o.in[ATTN_TABLE]].data)[i] = (float)(i * 7 % BUCKETS);
    if (!of) return o;
    o.u.attn.per_kv = per_kv;
    o.u.attn.head0 = h0 - kv0 * per_kv;
    for (int r = 0; r < rows; r++)
        memcpy(rig_at(g, o.in[ATTN_Q]) + r * n * c->k_dim, of[ATTN_Q] + (r * c->heads + h0) * c->k_dim,
               (size_t)(n * c->k_dim) * sizeof(float));
    for (int i = 0; bias && i < (c->bias == BIAS_BUCKETS ? BUCKETS : 1); i++)
        memcpy(bias + i * n, of[ATTN_BIAS] + i * c->heads + h0, (size_t)n * sizeof *bias);
    if (c->sinks) memcpy((float *)g->t[o.in[ATTN_SINKS]].data, of[ATTN_SINKS] + h0, (size_t)n * sizeof(float));
    return o;
}

/* Copies the tiles of heads kv0 … of the uncut cache. */
static void take_cache(rig *to, const rig *from, int kv0, int pages)
{
    const kv_store *s = &to->kv[0];
    for (int values = 0; values < 2; values++)
        for (int page = 0; page < pages; page++)
            for (int h = 0; h < s->heads; h++)
                memcpy(kv_tile(s, values, page, h), kv_tile(&from->kv[0], values, page, kv0 + h),
                       (values ? s->v_page : s->k_page) / (uint64_t)s->heads);
}

static void ranks_have_the_bits_of_the_whole(void **unused)
{
    (void)unused;
    static rig whole, part;
    char what[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const heads_case *c = &cases[i];
            const op all = open_case(&whole, c, kinds[k], 0, c->heads, NULL);
            const float *of[4] = {rig_at(&whole, all.in[ATTN_Q])};
            for (int n = ATTN_BIAS; n <= ATTN_SINKS; n++) of[n] = whole.t[all.in[n]].data;
            rig_run(&whole, cpu_kernels_named("c"), 1, &all);
            for (int b = 0; b < RANKS_MAX && c->border[b + 1]; b++) {
                const int h0 = c->border[b], n = c->border[b + 1] - h0;
                const op o = open_case(&part, c, kinds[k], h0, h0 + n, of);
                take_cache(&part, &whole, h0 / (c->heads / c->kv), case_pages(c));
                snprintf(what, sizeof what, "case %zu, cache %zu, heads from %d on", i, k, h0);
                rig_same(&part, &o, what);
                for (int r = 0; r < case_rows(c); r++)
                    if (memcmp(rig_at(&part, o.out) + r * n * c->v_dim,
                               rig_at(&whole, all.out) + (r * c->heads + h0) * c->v_dim,
                               (size_t)(n * c->v_dim) * sizeof(float)))
                        fail_msg("%s: row %d differs", what, r);
                rig_close(&part);
            }
            rig_close(&whole);
        }
}

/* Which numbers of heads fit a state. */
static void rules(void **unused)
{
    (void)unused;
    static const struct {
        int heads, per_kv, head0, kv;
        bool right;
    } of[] = {
        {4, 0, 0, 2, true},          {3, 0, 0, 2, false},  {4, 0, 1, 2, false}, {4, 2, 0, 2, true},
        {3, 2, 1, 2, true},          {3, 2, 0, 2, true},   {4, 2, 1, 2, false}, {2, 2, 0, 2, false},
        {7, 7, 4, 2, true},          {1, 7, 6, 1, true},   {1, 7, 7, 1, false}, {2, 7, 6, 1, false},
        {1, -1, 0, 1, false},        {1, 2, -1, 1, false}, {0, 2, 0, 1, false}, {5, INT32_MAX, INT32_MAX - 1, 2, true},
        {5, INT32_MAX, 1, 2, false},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const tensor t[] = {{.name = "none"},
                            {.kind = TENSOR_ACT, .rank = 1, .axis = AXIS_TOK, .dim = {8 * of[i].heads}},
                            {.kind = TENSOR_ACT, .rank = 1, .axis = AXIS_TOK, .dim = {8 * of[i].heads}}};
        state s = {.axis = AXIS_TOK, .heads = of[i].kv, .k_dim = 8, .v_dim = 8};
        const program p = {.tensors = (tensor *)t, .n_tensor = 3, .states = &s, .n_state = 1};
        const op o = {.kind = OP_ATTN,
                      .in = {1},
                      .out = 2,
                      .u.attn = {.scale = 1, .heads = of[i].heads, .per_kv = of[i].per_kv, .head0 = of[i].head0}};
        const char *wrong = op_check(&p, &o);
        if (!wrong != of[i].right) fail_msg("rule %zu: %s", i, wrong ? wrong : "accepted");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_have_the_bits_of_the_whole), cmocka_unit_test(rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
