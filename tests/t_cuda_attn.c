/* t_cuda_attn.c - ATTN on the CUDA backend, whose device is a program here (tests/gpu): the bits of the reference for
 * every type of cache and every mask, for few rows, whose ranges of keys blocks share, and for many. CASE=2: the third
 * case alone.
 *
 * And what it costs: lane-instructions of PTX, counted; ptxas makes fewer of some and more of others. Bars are what was
 * reached; COSTS=1 prints what is. */
#ifdef HAVE_CUDA
#include "cuda_op_rig.h"

typedef struct attn_case {
    int heads, kv, k_dim, v_dim, window, bias;
    float softcap;
    int n_seq, rows[4], last[4];
    int ahead, chunk, cross[4]; /* cross: keys of another axis for each sequence */
    bool sinks;
    int ranks[2]; /* query heads [0] … [1] - 1 of these heads; 0: all */
    int sides;    /* BIAS_PLACES: 1: rows have places, 2: keys have, 3: both */
} attn_case;

static const attn_case cases[] = {
    {1, 1, 16, 16, 0, BIAS_NONE, 0, 1, {1}, {0}},
    {8, 1, 64, 64, 0, BIAS_NONE, 0, 1, {1}, {2100}},
    {8, 2, 64, 64, 0, BIAS_NONE, 0, 3, {1, 1, 1}, {1300, 3, 511}},
    {6, 6, 20, 20, 0, BIAS_NONE, 0, 2, {5, 1}, {64, 63}},
    {14, 2, 33, 17, 0, BIAS_ALIBI, 0, 2, {9, 70}, {135, 69}},
    {4, 2, 48, 48, 0, BIAS_ALIBI_BF16, 0, 1, {30}, {600}},
    {6, 3, 72, 136, 13, BIAS_NONE, 0, 2, {70, 1}, {200, 30}},
    {4, 4, 24, 24, 100, BIAS_NONE, 5, 2, {40, 3}, {139, 1100}},
    {60, 1, 8, 8, 0, BIAS_NONE, 0.5f, 1, {3}, {530}},
    {9, 3, 128, 128, 600, BIAS_ALIBI, 0, 4, {1, 2, 1, 33}, {1500, 700, 5, 1060}},
    {16, 1, 576, 512, 0, BIAS_NONE, 0, 2, {5, 1}, {70, 130}},
    {4, 4, 1, 3, 33, BIAS_NONE, 0, 2, {200, 40}, {199, 39}, .ahead = 32},
    {4, 2, 16, 32, 0, BIAS_NONE, 0, 2, {150, 7}, {299, 130}, .chunk = 48},
    {4, 4, 16, 16, 0, BIAS_NONE, 0, 3, {5, 1, 90}, {4, 9, 89}, .ahead = AHEAD_ALL, .cross = {1, 700, 64}},
    {6, 6, 16, 16, 0, BIAS_BUCKETS, 0, 2, {150, 1}, {149, 0}, .ahead = AHEAD_ALL},
    {10, 2, 32, 32, 70, BIAS_NONE, 0, 2, {80, 1}, {180, 900}, .sinks = true},
    {14, 2, 64, 64, 0, BIAS_NONE, 0, 1, {1}, {3000}, .sinks = true, .ranks = {4, 11}},
    {130, 2, 8, 8, 0, BIAS_NONE, 0, 1, {4}, {530}, .ranks = {5, 120}},
    {6, 6, 16, 16, 0, BIAS_PLACES, 0, 3, {150, 1, 3}, {149, 0, 2}, .ahead = AHEAD_ALL, .sides = 3},
    {5, 5, 33, 17, 0, BIAS_PLACES, 0, 2, {9, 70}, {8, 69}, .ahead = AHEAD_ALL, .sides = 1},
    {4, 2, 64, 64, 0, BIAS_PLACES, 0, 1, {40}, {39}, .ahead = AHEAD_ALL, .sides = 2},
    {34, 34, 128, 128, 0, BIAS_NONE, 0, 4, {1, 1, 1, 1}, {1100, 40, 600, 511}}, /* a block has all ranges of a row */
};
static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_I16, DTYPE_Q8_B64, DTYPE_Q4_B32};

enum { REACH = 20, BUCKETS = 7 };

static op open_case(rig *g, const attn_case *c, dtype type)
{
    const int per_kv = c->heads / c->kv, h0 = c->ranks[0], n = (c->ranks[1] ? c->ranks[1] : c->heads) - h0;
    const int kv0 = h0 / per_kv, kv = (h0 + n - 1) / per_kv + 1 - kv0;
    int pages = 0, rows = 0;
    for (int s = 0; s < c->n_seq; s++) {
        const int end = c->last[s] > c->cross[s] ? c->last[s] : c->cross[s];
        rows += c->rows[s];
        if (end / PAGE_TOKENS + 1 > pages) pages = end / PAGE_TOKENS + 1;
    }
    rig_open(g, (uint64_t)rows * (uint64_t)(n * (c->k_dim + c->v_dim + (c->sides ? 2 * BUCKETS : 0))) * 4);
    rig_sequences(g, c->n_seq, c->rows, c->last);
    rig_cache(g, kv, c->k_dim, c->v_dim, type, type, pages * c->n_seq);
    if (c->cross[0]) {
        g->states[0].axis = AXIS_ENC;
        g->st.enc.seq_len = c->cross;
    }
    op o = {.kind = OP_ATTN,
            .u.attn = {.scale = 1 / sqrtf((float)c->k_dim),
                       .softcap = c->softcap,
                       .heads = n,
                       .per_kv = per_kv,
                       .head0 = h0 - kv0 * per_kv,
                       .window = c->window,
                       .ahead = c->ahead,
                       .chunk = c->chunk,
                       .bias = c->bias}};
    const bool buckets = c->bias == BIAS_BUCKETS;
    o.in[ATTN_Q] = rig_act(g, n * c->k_dim);
    if (c->sides & 1) o.in[ATTN_OWN_PLACES] = rig_act(g, n * BUCKETS);
    else if (c->bias && !c->sides) o.in[ATTN_BIAS] = rig_const(g, buckets ? BUCKETS * n : n);
    if (c->sides & 2) o.in[ATTN_KEY_PLACES] = rig_act(g, n * BUCKETS);
    for (int h = 0; c->bias && !buckets && !c->sides && h < n; h++)
        ((float *)g->t[o.in[ATTN_BIAS]].data)[h] = powf(2, -8.0f * (float)(h + 1) / (float)n);
    if (buckets || c->sides) o.in[ATTN_TABLE] = rig_const(g, 2 * REACH + 1);
    for (int i = 0; o.in[ATTN_TABLE] && i <= 2 * REACH; i++)
        ((float *)g->t[o.in[ATTN_TABLE]].data)[i] = (float)(i * 3 % BUCKETS);
    if (c->sinks) o.in[ATTN_SINKS] = rig_sinks(g, n);
    o.out = rig_act(g, n * c->v_dim);
    return o;
}

/* Computes a case on both; `odd`: some queries are not finite or zero. */
static void compare_case(const attn_case *c, dtype type, bool odd)
{
    static rig g;
    const op o = open_case(&g, c, type);
    const int64_t rows = g.st.n[AXIS_TOK], dim = g.t[o.out].dim[0];
    float *got = mem_array((size_t)(rows * dim), sizeof *got), *q = rig_at(&g, o.in[ATTN_Q]);
    assert_non_null(got);
    if (odd) {
        q[rows / 2 * g.t[o.in[ATTN_Q]].dim[0]] = INFINITY;
        memset(q + (rows - 1) * g.t[o.in[ATTN_Q]].dim[0], 0, (size_t)c->k_dim * sizeof *q);
    }
    rig_run(&g, cpu_kernels_named("c"), 1, &o);
    cuda_op_run(&g, &o, 1, o.in[ATTN_Q], c - cases < 3 ? 2 : 1, got); /* 2: a captured graph */
    const float *want = rig_at(&g, o.out);
    for (int64_t i = 0; i < rows * dim; i++)
        if (memcmp(&want[i], &got[i], sizeof *got) && (want[i] == want[i] || got[i] == got[i]))
            fail_msg("case %d, cache %s: row %d, element %d is %g, not %g", (int)(c - cases), dtype_info[type].name,
                     (int)(i / dim), (int)(i % dim), (double)got[i], (double)want[i]);
    mem_free(got);
    rig_close(&g);
}

static void equals_the_reference(void **unused)
{
    (void)unused;
    const char *only = getenv("CASE");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types && (!only || (size_t)atoi(only) == i); t++)
            compare_case(&cases[i], types[t], i == 3);
}

/* Lane-instructions of ATTN of a case. */
static double cost_of(const attn_case *c, dtype type, const uint64_t *done)
{
    static rig g;
    const op o = open_case(&g, c, type);
    cuda_op_rig r;
    err e = {0};
    cuda_op_open(&r, &g, &o, 1, o.in[ATTN_Q]);
    const uint64_t before = *done;
    assert_ok(cuda_backend.start(r.d, &r.s, 0, &g.st, &e), &e);
    assert_ok(cuda_backend.wait(r.d, &e), &e);
    const uint64_t after = *done;
    cuda_op_close(&r, &g);
    rig_close(&g);
    return 32 * (double)(after - before);
}

/* Of one row and head for each key of 128 elements with its value: 2048 more of them. */
static double cost_of_a_key(dtype type, const uint64_t *done)
{
    static const attn_case near = {2, 2, 128, 128, 0, BIAS_NONE, 0, 1, {1}, {2047}},
                           far = {2, 2, 128, 128, 0, BIAS_NONE, 0, 1, {1}, {4095}};
    return (cost_of(&far, type, done) - cost_of(&near, type, done)) / (2 * 2048);
}

/* For each score of the last 128 rows of a prompt of 2048. */
static double cost_of_a_score(dtype type, const uint64_t *done)
{
    static const attn_case many = {2, 2, 128, 128, 0, BIAS_NONE, 0, 1, {128}, {2047}};
    return cost_of(&many, type, done) / (2 * 128 * (2048 - 127 / 2.0));
}

static void keeps_to_its_costs(void **unused)
{
    (void)unused;
    if (getenv("CASE") && !getenv("COSTS")) return;
    static const struct {
        dtype type;
        double key, score;
    } bars[] = {{DTYPE_F32, 3280, 400},
                {DTYPE_F16, 3050, 446},
                {DTYPE_I16, 2110, 268},
                {DTYPE_Q8_B64, 1560, 246},
                {DTYPE_Q4_B32, 2130, 380}};
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const uint64_t *done = lib ? dlsym(lib, "machine_warp_instructions") : NULL;
    assert_non_null(done);
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
        const double key = cost_of_a_key(bars[i].type, done), score = cost_of_a_score(bars[i].type, done);
        const char *name = dtype_info[bars[i].type].name;
        if (getenv("COSTS")) print_message("%s: %.0f a key and value, %.0f a score\n", name, key, score);
        else if (key > bars[i].key || score > bars[i].score)
            fail_msg("cache %s: %.0f and %.0f lane-instructions, more than %.0f and %.0f", name, key, score,
                     bars[i].key, bars[i].score);
    }
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_reference), cmocka_unit_test(keeps_to_its_costs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "cuda_rig.h"

int main(void) { return cuda_rig_open(); }
#endif
