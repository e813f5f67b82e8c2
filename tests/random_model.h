/* random_model.h - for tests: small programs with random weights and awkward sizes, built without any spec, and steps
 * to run them.
 *
 * A model is a stack of blocks with the features of `shape_of`; weights are a pure function of the seed. `trace` runs
 * sequences over a plan in whatever batches and chunks the caller asks for and collects the logits of every row. */
#pragma once
#include "core/program.h"
#include "plan/plan_show.h"
#include "plan_rig.h"
#include "tensor/panel.h"

#include "random_blocks.h"

typedef struct model_shape {
    int layers, dim, heads, kv_heads, head_dim, ffn, vocab, ctx;
    int window;     /* of odd layers; 0 = none */
    int taps;       /* of the convolution that every third layer has in place of attention; 0 = none has */
    bool only_taps; /* all layers have it */
    int recur;      /* RECURS_*: the recurrence that other layers than those of attention have */
    int norm, bias; /* NORM_*, BIAS_* (then no rope) */
    int rope_dims, rope_style;
    dtype type; /* of matrices; block types are packed, their activations int8 */
    bool parallel, gated, biases, qk_norm, learned;
    bool full, pooled; /* attention in both directions; a mean of unit length and three scores for each sequence */
    float softcap, final_cap;
} model_shape;

/* None; value heads in groups, or tiled, over half as many key heads; all over one key head, as in Mamba 2; a step for
 * each row of the state, as in KDA; heads of one column with a rate for each row, as in Mamba 1. */
enum { RECURS_NOT, RECURS_GROUPED, RECURS_TILED, RECURS_ONE_KEY, RECURS_BY_ROWS, RECURS_BY_COLUMNS };

static uint64_t test_random_state;

static float test_random(void) /* uniform in [-1, 1) */
{
    uint64_t x = test_random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((double)((x ^ x >> 31) >> 11) * 0x1p-52 - 1);
}

typedef struct model_builder {
    program *p;
    const model_shape *m;
    int layer;
} model_builder;

static uint8_t *arena_blocks(model_builder *b, dtype type, int64_t rows, int64_t cols)
{
    uint64_t bytes = (uint64_t)rows * dtype_row_bytes(type, (uint64_t)cols);
    uint8_t *made = random_blocks(type, rows, cols, false), *to = arena_alloc(&b->p->mem, bytes);
    assert_non_null(to);
    memcpy(to, made, bytes);
    mem_free(made);
    return to;
}

static ref test_weight(model_builder *b, const char *name, int64_t rows, int64_t cols, bool vector, float mean,
                       float spread)
{
    err e = {0};
    dtype type = vector ? DTYPE_F32 : b->m->type;
    bool blocks = dtype_info[type].weights > 1;
    size_t n = (size_t)(rows * cols);
    uint8_t *data = blocks ? arena_blocks(b, type, rows, cols) : arena_alloc(&b->p->mem, n * 4);
    assert_non_null(data);
    for (size_t i = 0; i < n && !blocks; i++) {
        float v = mean + spread * test_random();
        if (type == DTYPE_F32) ((float *)data)[i] = v;
        else ((uint16_t *)data)[i] = type == DTYPE_F16 ? f32_to_f16(v) : f32_to_bf16(v);
    }
    piece c = {.data = data,
               .type = type,
               .src_rows = rows,
               .src_cols = cols,
               .rows = rows,
               .block = rows,
               .stride = rows,
               .mul = 1};
    uint32_t w = program_weight(
        b->p, &(weight){.name = name, .pieces = &c, .n_piece = 1, .rows = rows, .cols = cols, .vector = vector}, &e);
    assert_ok(e.code, &e);
    ref r = program_tensor(b->p,
                           &(tensor){.name = name,
                                     .kind = TENSOR_WEIGHT,
                                     .rank = vector ? 1 : 2,
                                     .layer = (int16_t)b->layer,
                                     .dim = {rows, cols},
                                     .weight = w},
                           &e);
    assert_ok(e.code, &e);
    return r;
}

static ref test_act(model_builder *b, int rows, int64_t dim)
{
    err e = {0};
    ref r = program_tensor(b->p,
                           &(tensor){.name = "t",
                                     .kind = TENSOR_ACT,
                                     .rank = 1,
                                     .axis = (uint8_t)rows,
                                     .layer = (int16_t)b->layer,
                                     .dim = {dim}},
                           &e);
    assert_ok(e.code, &e);
    return r;
}

static ref test_op(model_builder *b, op o, int rows, int64_t dim)
{
    err e = {0};
    o.layer = (int16_t)b->layer;
    if (!op_is(&o, OPF_STATE)) o.state = -1;
    if (dim) o.out = test_act(b, rows, dim);
    assert_ok(program_op(b->p, &o, &e), &e);
    return o.out;
}

static ref test_norm(model_builder *b, ref x, int64_t dim, int width, int rows)
{
    ref gain = test_weight(b, "norm", width, 1, true, 1, 0.2f);
    ref bias = b->m->norm == NORM_LAYER ? test_weight(b, "norm.b", width, 1, true, 0, 0.1f) : 0;
    return test_op(
        b, (op){.kind = OP_NORM, .in = {x, gain, bias}, .u.norm = {.eps = 1e-3f, .kind = b->m->norm, .width = width}},
        rows, dim);
}

/* x as int8 for weight w, which is packed; made once. */
static ref test_codes(model_builder *b, ref x, int block, ref w)
{
    b->p->weights[b->p->tensors[w].weight].packed = true;
    for (uint32_t i = 0; i < b->p->n_op; i++)
        if (b->p->ops[i].kind == OP_QUANT && b->p->ops[i].in[0] == x) return b->p->ops[i].out;
    ref codes = test_act(b, b->p->tensors[x].axis, b->p->tensors[x].dim[0]);
    b->p->tensors[codes].block = (uint8_t)block;
    return test_op(b, (op){.kind = OP_QUANT, .in = {x}, .out = codes}, 0, 0);
}

static ref test_linear(model_builder *b, ref x, int64_t in, int64_t out, int rows)
{
    ref w = test_weight(b, "w", out, in, false, 0, 2.0f / sqrtf((float)in));
    const panel_format *f = panel_format_of(b->m->type);
    if (f) x = test_codes(b, x, f->act, w);
    ref bias = b->m->biases ? test_weight(b, "b", out, 1, true, 0, 0.1f) : 0;
    return test_op(b, (op){.kind = OP_MATMUL, .in = {x, w, bias}}, rows, out);
}

static ref test_attention(model_builder *b, ref x)
{
    err e = {0};
    const model_shape *m = b->m;
    int q_dim = m->heads * m->head_dim, kv_dim = m->kv_heads * m->head_dim, window = b->layer % 2 ? m->window : 0;
    ref q = test_linear(b, x, m->dim, q_dim, AXIS_TOK), k = test_linear(b, x, m->dim, kv_dim, AXIS_TOK);
    ref v = test_linear(b, x, m->dim, kv_dim, AXIS_TOK), slopes = 0;
    if (m->qk_norm) {
        q = test_norm(b, q, q_dim, m->head_dim, AXIS_TOK);
        k = test_norm(b, k, kv_dim, m->head_dim, AXIS_TOK);
    }
    if (m->bias) {
        float *values = arena_array(&b->p->mem, (size_t)m->heads, sizeof *values);
        for (int h = 0; h < m->heads; h++) values[h] = exp2f(-8.0f * (float)(h + 1) / (float)m->heads);
        slopes = program_tensor(
            b->p,
            &(tensor){
                .name = "slopes", .kind = TENSOR_CONST, .rank = 1, .layer = -1, .dim = {m->heads}, .data = values},
            &e);
    } else if (m->rope_dims) {
        rope_params rp = {.scaling = ROPE_NONE, .dims = m->rope_dims, .theta = 500, .truncate = true};
        int table = program_rope(b->p, &rp, m->ctx, &e);
        op o = {.kind = OP_ROPE,
                .in = {q},
                .u.rope = {.dims = m->rope_dims, .style = m->rope_style, .width = m->head_dim, .table = table}};
        q = test_op(b, o, AXIS_TOK, q_dim);
        o.in[0] = k;
        k = test_op(b, o, AXIS_TOK, kv_dim);
    }
    bool shared = m->full && b->layer > 0;
    int s = shared ? 0
                   : program_state(b->p,
                                   &(state){.axis = AXIS_TOK,
                                            .layer = (int16_t)b->layer,
                                            .heads = m->kv_heads,
                                            .k_dim = m->head_dim,
                                            .v_dim = m->head_dim,
                                            .window = m->full ? 0 : window},
                                   &e);
    assert_true(s >= 0);
    test_op(b, (op){.kind = OP_KV_PUT, .state = (int16_t)s, .in = {k, v}}, 0, 0);
    ref a = test_op(b,
                    (op){.kind = OP_ATTN,
                         .state = (int16_t)s,
                         .in = {q, slopes},
                         .u.attn = {.scale = 1 / sqrtf((float)m->head_dim),
                                    .softcap = m->softcap,
                                    .heads = m->heads,
                                    .window = window,
                                    .ahead = !m->full ? 0
                                             : window ? window - 1
                                                      : AHEAD_ALL,
                                    .bias = m->bias}},
                    AXIS_TOK, q_dim);
    return test_linear(b, a, q_dim, m->dim, AXIS_TOK);
}

/* A causal convolution between two gates. */
static ref test_conv(model_builder *b, ref x)
{
    err e = {0};
    const model_shape *m = b->m;
    ref in = test_linear(b, x, m->dim, m->dim, AXIS_TOK), gate = test_linear(b, x, m->dim, m->dim, AXIS_TOK);
    ref taps = test_weight(b, "kernel", m->taps, m->dim, false, 0, 1);
    ref bias = m->biases ? test_weight(b, "b", m->dim, 1, true, 0, 0.1f) : 0;
    b->p->weights[b->p->tensors[taps].weight].want = DTYPE_F32;
    state s = {.kind = STATE_SLOT,
               .axis = AXIS_TOK,
               .layer = (int16_t)b->layer,
               .slot_floats = (int64_t)(m->taps - 1) * m->dim};
    int index = program_state(b->p, &s, &e);
    assert_true(index >= 0);
    ref y = test_op(b, (op){.kind = OP_CONV, .state = (int16_t)index, .in = {in, taps, bias}}, AXIS_TOK, m->dim);
    y = test_op(b, (op){.kind = OP_MUL, .in = {y, gate}}, AXIS_TOK, m->dim);
    return test_linear(b, y, m->dim, m->dim, AXIS_TOK);
}

/* A number of each head below zero. */
static ref test_rates(model_builder *b, int n)
{
    err e = {0};
    float *rate = arena_array(&b->p->mem, (size_t)n, sizeof *rate);
    assert_non_null(rate);
    for (int i = 0; i < n; i++) rate[i] = -1 - 0.9f * test_random();
    tensor t = {.name = "rate", .kind = TENSOR_CONST, .rank = 1, .layer = (int16_t)b->layer, .dim = {n}, .data = rate};
    ref r = program_tensor(b->p, &t, &e);
    assert_ok(e.code, &e);
    return r;
}

static ref test_act_of(model_builder *b, ref x, int fn)
{
    return test_op(b, (op){.kind = OP_ACT, .in = {x}, .u.act.fn = fn}, AXIS_TOK, tensor_count(&b->p->tensors[x]));
}

/* What RECUR reads beside values: queries and keys of unit length, steps and strengths of `per` numbers a head. */
static ref test_recur_keys(model_builder *b, ref x, int key_heads, int rows)
{
    const int n = key_heads * rows;
    ref of[2];
    for (int k = 0; k < 2; k++) {
        of[k] = test_linear(b, x, b->m->dim, n, AXIS_TOK);
        of[k] = test_op(b, (op){.kind = OP_NORM, .in = {of[k]}, .u.norm = {1e-6f, NORM_L2, rows}}, AXIS_TOK, n);
    }
    return test_op(b, (op){.kind = OP_JOIN, .in = {of[0], of[1]}, .u.join = {key_heads}}, AXIS_TOK, 2 * n);
}

static ref test_recur_steps(model_builder *b, ref x, int heads, int steps, bool own)
{
    ref times = test_act_of(b, test_linear(b, x, b->m->dim, heads * steps, AXIS_TOK), ACT_SOFTPLUS);
    if (!own) return times;
    ref strength = test_act_of(b, test_linear(b, x, b->m->dim, heads, AXIS_TOK), ACT_SIGMOID);
    return test_op(b, (op){.kind = OP_JOIN, .in = {times, strength}, .u.join = {heads}}, AXIS_TOK, heads * (steps + 1));
}

static ref test_recur(model_builder *b, ref x)
{
    err e = {0};
    const model_shape *m = b->m;
    const int how = m->recur, heads = how == RECURS_BY_COLUMNS ? m->heads * m->head_dim : m->heads;
    const int key_heads = how <= RECURS_TILED     ? m->heads / 2
                          : how == RECURS_BY_ROWS ? m->heads
                                                  : 1,
              rows = m->head_dim + 3, dim = m->heads * m->head_dim;
    const bool own = how <= RECURS_TILED || how == RECURS_BY_ROWS;
    state s = {.kind = STATE_SLOT, .axis = AXIS_TOK, .layer = (int16_t)b->layer, .slot_floats = (int64_t)rows * dim};
    const int index = program_state(b->p, &s, &e);
    assert_true(index >= 0);
    op o = {.kind = OP_RECUR,
            .state = (int16_t)index,
            .u.recur = {.heads = heads,
                        .key_heads = key_heads,
                        .tiled = how == RECURS_TILED,
                        .delta = own,
                        .strength = own ? RECUR_OWN : RECUR_STEP}};
    o.in[RECUR_V] = test_linear(b, x, m->dim, dim, AXIS_TOK);
    o.in[RECUR_KEYS] = test_recur_keys(b, x, key_heads, rows);
    o.in[RECUR_STEPS] = test_recur_steps(b, x, heads, how == RECURS_BY_ROWS ? rows : 1, own);
    o.in[RECUR_RATE] = test_rates(b, how == RECURS_BY_COLUMNS ? heads * rows : heads);
    return test_linear(b, test_op(b, o, AXIS_TOK, dim), dim, m->dim, AXIS_TOK);
}

static ref test_mix(model_builder *b, ref x)
{
    if (b->m->recur && b->layer % 2 == 0) return test_recur(b, x);
    return b->m->only_taps || (b->m->taps && b->layer % 3 == 2) ? test_conv(b, x) : test_attention(b, x);
}

static ref test_ffn(model_builder *b, ref x)
{
    const model_shape *m = b->m;
    ref up = test_linear(b, x, m->dim, m->ffn, AXIS_TOK);
    if (m->gated) {
        ref gate = test_linear(b, x, m->dim, m->ffn, AXIS_TOK);
        gate = test_op(b, (op){.kind = OP_ACT, .in = {gate}, .u.act.fn = ACT_SILU}, AXIS_TOK, m->ffn);
        up = test_op(b, (op){.kind = OP_MUL, .in = {gate, up}}, AXIS_TOK, m->ffn);
    } else {
        up = test_op(b, (op){.kind = OP_ACT, .in = {up}, .u.act.fn = ACT_GELU}, AXIS_TOK, m->ffn);
    }
    return test_linear(b, up, m->ffn, m->dim, AXIS_TOK);
}

static ref test_sum(model_builder *b, ref x, ref y)
{
    return test_op(b, (op){.kind = OP_ADD, .in = {x, y}}, AXIS_TOK, b->m->dim);
}

static void test_pooled(model_builder *b, ref x)
{
    program *p = b->p;
    int dim = b->m->dim;
    p->entries[ENTRY_POOL].op0 = p->n_op;
    ref mean = test_op(b, (op){.kind = OP_POOL, .in = {x}, .u.pool.how = POOL_MEAN}, AXIS_SEQ, dim);
    p->entries[ENTRY_POOL].out = test_op(
        b, (op){.kind = OP_NORM, .in = {mean}, .u.norm = {.eps = 1e-12f, .kind = NORM_L2, .width = dim}}, AXIS_SEQ,
        dim);
    p->entries[ENTRY_POOL].op1 = p->entries[ENTRY_SCORES].op0 = p->n_op;
    ref last = test_op(b, (op){.kind = OP_POOL, .in = {x}, .u.pool.how = POOL_LAST}, AXIS_SEQ, dim);
    p->entries[ENTRY_SCORES].out = test_linear(b, last, dim, 3, AXIS_SEQ);
    p->entries[ENTRY_SCORES].op1 = p->n_op;
}

__attribute__((unused)) static program *random_model(const model_shape *m, uint64_t seed)
{
    err e = {0};
    test_random_state = seed;
    model_builder b = {.p = program_new(&e), .m = m, .layer = -1};
    program *p = b.p;
    assert_non_null(p);
    p->hidden = arena_array(&p->mem, (size_t)m->layers + 1, sizeof *p->hidden);
    p->dim = m->dim;
    p->vocab = m->vocab;
    p->n_layer = m->layers;
    ref x = test_op(&b, (op){.kind = OP_EMBED, .in = {test_weight(&b, "embed", m->vocab, m->dim, false, 0, 1)}},
                    AXIS_TOK, m->dim);
    if (m->learned) {
        ref table = test_weight(&b, "position", m->ctx + 2, m->dim, false, 0, 0.3f);
        x = test_sum(&b, x,
                     test_op(&b,
                             (op){.kind = OP_EMBED, .in = {table}, .u.embed = {.by = EMBED_BY_POSITION, .offset = 2}},
                             AXIS_TOK, m->dim));
    }
    p->hidden[0] = x;
    for (b.layer = 0; b.layer < m->layers; b.layer++) {
        ref a = test_norm(&b, x, m->dim, m->dim, AXIS_TOK);
        if (m->parallel) {
            x = test_sum(&b, test_sum(&b, x, test_mix(&b, a)), test_ffn(&b, a));
        } else {
            x = test_sum(&b, x, test_mix(&b, a));
            x = test_sum(&b, x, test_ffn(&b, test_norm(&b, x, m->dim, m->dim, AXIS_TOK)));
        }
        p->hidden[b.layer + 1] = x;
    }
    b.layer = -1;
    p->entries[ENTRY_DEC].op1 = p->n_op;
    p->entries[ENTRY_HEAD].op0 = p->n_op;
    x = test_op(&b, (op){.kind = OP_TAKE_OUT, .in = {x}}, AXIS_OUT, m->dim);
    x = test_norm(&b, x, m->dim, m->dim, AXIS_OUT);
    x = test_linear(&b, x, m->dim, m->vocab, AXIS_OUT);
    if (m->final_cap > 0)
        x = test_op(&b, (op){.kind = OP_SOFTCAP, .in = {x}, .u.softcap.cap = m->final_cap}, AXIS_OUT, m->vocab);
    p->entries[ENTRY_HEAD].op1 = p->n_op;
    p->entries[ENTRY_HEAD].out = x;
    if (m->pooled) test_pooled(&b, p->hidden[m->layers]);
    assert_ok(program_finish(p, &e), &e);
    return p;
}

/* ---- running */

enum { TRACE_SEQS = 16, TRACE_ROWS = 512 };

typedef struct trace_options {
    const char *devices, *isa;
    int threads, batch, chunk; /* sequences in one step; rows of one sequence in one step */
    dtype kv;
    bool inexact, twice; /* twice: each step is done a second time */
    pace pretended_speed;
    double *busy; /* NULL, or the seconds that each device has computed */
} trace_options;

/* What an encoder reads for sequence s: 1 + 5 s mod 29 tokens, in the step that begins the sequence. `who`, `begins`:
 * of the step's sequences. Arrays live until the next call. */
static void trace_encoder(step *st, const program *p, const int *who, const bool *begins)
{
    enum { LONGEST = 29 };
    static int32_t token[TRACE_ROWS], type[TRACE_ROWS], pos[TRACE_ROWS], seq[TRACE_ROWS], len[TRACE_SEQS],
        first[TRACE_SEQS + 1];
    int64_t vocab = 1;
    int rows = 0;
    for (uint32_t i = p->entries[ENTRY_ENC].op0; i < p->entries[ENTRY_ENC].op1; i++)
        if (p->ops[i].kind == OP_EMBED && p->ops[i].u.embed.by == EMBED_BY_TOKEN)
            vocab = p->tensors[p->ops[i].in[0]].dim[0];
    for (int k = 0; k < st->n_seq; k++) {
        first[k] = rows;
        len[k] = 1 + 5 * who[k] % LONGEST;
        for (int i = 0; begins[k] && i < len[k]; i++, rows++) {
            token[rows] = (int32_t)((11 * who[k] + 3 * i) % vocab);
            pos[rows] = i;
            seq[rows] = k;
        }
    }
    first[st->n_seq] = st->n[AXIS_ENC] = rows;
    st->enc = (step_rows){.token = token, .type = type, .pos = pos, .seq = seq, .seq_len = len, .seq_row = first};
}

/* Runs `n_seq` sequences of `length` tokens (sequence s, position i: token (7 s + 13 i + s i) mod vocab) and writes the
 * logits of every row: [n_seq][length][vocab]. Sequences of a group start one step apart, so chunks and decode rows
 * mix. */
__attribute__((unused)) static void trace(program *p, const trace_options *t, int n_seq, int length, float *logits)
{
    static int32_t token[TRACE_ROWS], pos[TRACE_ROWS], seq[TRACE_ROWS], out[TRACE_ROWS], len[TRACE_SEQS],
        first[TRACE_SEQS + 1];
    static int32_t variant[4 * TRACE_SEQS], page[GROUP_MAX * TRACE_SEQS * 64], slot[2][TRACE_SEQS];
    int pages = (length + PAGE_TOKENS - 1) / PAGE_TOKENS;
    assert_true(n_seq <= TRACE_SEQS && pages <= 64 && t->batch <= TRACE_SEQS && t->chunk * t->batch <= TRACE_ROWS);
    plan *l = rig_plan(p, (plan_case){.devices = t->devices,
                                      .cpu = {.threads = t->threads, .isa = t->isa, .share_all = t->threads != 1},
                                      .rows = TRACE_ROWS,
                                      .pages = pages * TRACE_SEQS,
                                      .kv = t->kv,
                                      .inexact = t->inexact,
                                      .pretended_speed = t->pretended_speed});
    for (int s0 = 0; s0 < n_seq; s0 += t->batch) {
        int done[TRACE_SEQS] = {0}, n = n_seq - s0 < t->batch ? n_seq - s0 : t->batch;
        for (int turn = 0, left = n; left; turn++) {
            int rows = 0, k = 0, who[TRACE_SEQS], from[TRACE_SEQS];
            bool begins[TRACE_SEQS];
            for (int s = 0; s < n; s++) {
                if (done[s] >= length || turn < s) continue; /* staggered */
                who[k] = s;
                begins[k] = done[s] == 0;
                slot[0][k] = 2 * s + turn % 2;
                slot[1][k] = 2 * s + !(turn % 2);
                from[k] = first[k] = rows;
                for (int i = 0; i < t->chunk && done[s] < length; i++, rows++, done[s]++) {
                    token[rows] = (7 * (s0 + s) + 13 * done[s] + (s0 + s) * done[s]) % (int)p->vocab;
                    pos[rows] = done[s];
                    seq[rows] = k;
                    out[rows] = rows;
                }
                left -= done[s] >= length;
                len[k++] = done[s];
            }
            first[k] = rows;
            for (uint32_t g = 0; g < p->n_group; g++)
                for (int i = 0; i < k; i++)
                    for (int j = 0; j < pages; j++) /* scattered, each group differently */
                        page[((int)g * k + i) * pages + j] = (who[i] * pages + j) * 7 % (pages * TRACE_SEQS);
            if (pages * TRACE_SEQS % 7 == 0)
                for (uint32_t i = 0; i < p->n_group * (uint32_t)(k * pages); i++)
                    page[i] = (int32_t)(i % (uint32_t)(k * pages));
            step st = {.tok = {.token = token, .pos = pos, .seq = seq, .seq_len = len, .seq_row = first},
                       .out = out,
                       .n_seq = k,
                       .seq_rope = variant,
                       .page = page,
                       .page_cap = pages,
                       .slot_read = slot[0],
                       .slot_write = slot[1]};
            st.n[AXIS_TOK] = st.n[AXIS_OUT] = rows;
            st.n[AXIS_EXP] = rows * p->n_used;
            int of[TRACE_SEQS];
            for (int i = 0; i < k; i++) of[i] = s0 + who[i];
            if (p->entries[ENTRY_ENC].out) trace_encoder(&st, p, of, begins);
            for (int again = 0; again <= t->twice; again++) rig_plan_step(l, &st);
            const float *got = plan_result(l, ENTRY_HEAD);
            for (int i = 0; i < k; i++)
                memcpy(logits + ((size_t)(s0 + who[i]) * (size_t)length + (size_t)pos[from[i]]) * (size_t)p->vocab,
                       got + (size_t)from[i] * (size_t)p->vocab,
                       (size_t)(first[i + 1] - from[i]) * (size_t)p->vocab * sizeof *got);
        }
    }
    for (int i = 0; t->busy && i < plan_segments(l); i++) t->busy[i] = plan_busy(l, i);
    plan_close(l);
}
