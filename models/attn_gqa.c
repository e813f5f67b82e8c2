/* attn_gqa.c - self attention with any numbers of heads and key/value heads (arXiv 1706.03762, 1911.02150, 2305.13245): causal, in
 * encoders over the whole text.
 *
 * What varies between families is data: rotation (halves or neighbours, all or part of a head, any scaling), ALiBi slopes, norms of
 * queries and keys, soft-cap, window, scale. Fused q/k/v tensors are three slots with recipes on one name. */
#include "base/mem.h"
#include "models/distance_buckets.h"
#include "models/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct attn_gqa_options {
    int64_t heads, kv_heads, head_dim, window;
    const char *mask;
    double scale, softcap, clip;
    const char *bias, *bias_o;
    const char *qk_norm, *qk_norm_kind, *qk_norm_bias;
    double eps;
    const char *rope;
    int64_t rope_dims, rope_original, rope_positions;
    double theta, rope_factor, rope_low_freq, rope_high_freq, rope_beta_fast, rope_beta_slow, rope_mscale,
        rope_mscale_all, rope_attention_factor;
    bool rope_truncate;
    const char *rope_type, *rope_short, *rope_long, *rope_freqs;
    bool alibi;
    const char *alibi_round;
    int64_t buckets, bucket_distance;
} attn_gqa_options;

#define ROW(field, kind, ...) MODULE_ROW(attn_gqa_options, field, kind, __VA_ARGS__)
static const param rows[] = {
    ROW(heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "query heads"),
    ROW(kv_heads, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "key/value heads; 0 = heads"),
    ROW(head_dim, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "width of a head; 0 = dim / heads"),
    ROW(window, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,
        .doc = "a token sees itself and window - 1 before, with a full mask also as many after; 0 = all"),
    ROW(mask, PARAM_WORD, .otherwise = "auto", .words = "auto|causal|full",
        .doc = "causal: a token sees those before it; full: it sees all; auto: full in encoders"),
    ROW(scale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6, .doc = "of scores; 0 = 1 / sqrt(head_dim)"),
    ROW(softcap, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e9, .doc = "cap * tanh(score / cap); 0 = none"),
    ROW(clip, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e9,
        .doc = "queries, keys and values are kept between -clip and clip; 0 = free"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "biases of q, k, v; auto: when the checkpoint has them"),
    ROW(bias_o, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the output"),
    ROW(qk_norm, PARAM_WORD, .otherwise = "none", .words = "none|head|heads|whole",
        .doc = "norm of queries and keys before rotation: per head with one weight for all heads, per head with a "
               "weight for "
               "each, or over the whole projection"),
    ROW(qk_norm_kind, PARAM_WORD, .otherwise = "rms", .words = "rms|layer", .doc = "which norm that is"),
    ROW(qk_norm_bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "its bias"),
    ROW(eps, PARAM_FLOAT, .otherwise = "1e-6", .min = 0, .max = 1, .doc = "its eps"),
    ROW(rope, PARAM_WORD, .otherwise = "none", .words = "none|neox|interleaved",
        .doc = "rotary positions: pairs (i, i + n/2), or neighbours (2i, 2i + 1)"),
    ROW(rope_dims, PARAM_INT, .otherwise = "0", .min = 0, .max = ROPE_DIMS_MAX,
        .doc = "rotated dimensions of a head, the first ones; 0 = all"),
    ROW(theta, PARAM_FLOAT, .otherwise = "10000", .min = 1e-3, .max = 1e15, .doc = "base of the frequencies"),
    ROW(rope_type, PARAM_WORD, .otherwise = "none", .words = "none|linear|dynamic|yarn|llama3|longrope",
        .doc = "scaling of the frequencies (src/core/rope.h)"),
    ROW(rope_factor, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,
        .doc = "all but none; 0: of yarn and longrope, rope_positions / rope_original"),
    ROW(rope_original, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,
        .doc = "positions before scaling: dynamic, yarn, llama3, longrope"),
    ROW(rope_positions, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,
        .doc = "positions after scaling: longrope, dynamic"),
    ROW(rope_low_freq, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1e6, .doc = "llama3"),
    ROW(rope_high_freq, PARAM_FLOAT, .otherwise = "4", .min = 0, .max = 1e6, .doc = "llama3"),
    ROW(rope_beta_fast, PARAM_FLOAT, .otherwise = "32", .min = 0, .max = 1e6, .doc = "yarn"),
    ROW(rope_beta_slow, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1e6, .doc = "yarn"),
    ROW(rope_mscale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6, .doc = "yarn; 0 = absent"),
    ROW(rope_mscale_all, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,
        .doc = "yarn, mscale_all_dim; 0 = absent"),
    ROW(rope_attention_factor, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,
        .doc = "yarn, longrope; 0 = computed"),
    ROW(rope_truncate, PARAM_BOOL, .otherwise = "true", .doc = "yarn: the correction range is whole dimensions"),
    ROW(rope_short, PARAM_TEXT, .words = "LIST", .doc = "longrope: a factor per frequency for short texts"),
    ROW(rope_long, PARAM_TEXT, .words = "LIST", .doc = "longrope: and for long ones"),
    ROW(rope_freqs, PARAM_TEXT, .words = "LIST",
        .doc = "a divisor per frequency, instead of a scaling (GGUF's rope_freqs)"),
    ROW(alibi, PARAM_BOOL, .otherwise = "false",
        .doc =
            "linear biases (arXiv 2108.12409): slopes 2^(-8 k / n) for the power of two n below the number of heads, "
            "then every other one of 2 n"),
    ROW(alibi_round, PARAM_WORD, .otherwise = "none", .words = "none|bf16",
        .doc = "bf16: slope * position rounded to bfloat16 and added before scaling"),
    ROW(buckets, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16,
        .doc = "learned biases for this many buckets of distances (arXiv 1910.10683); 0 = none"),
    ROW(bucket_distance, PARAM_INT, .otherwise = "128", .min = 1, .max = 1 << 20,
        .doc = "farther keys are all in the last bucket"),
};
static const module_weight weights[] = {
    {"q", "[heads * head_dim, dim]", "queries"},
    {"k", "[kv_heads * head_dim, dim]", "keys"},
    {"v", "[kv_heads * head_dim, dim]", "values"},
    {"o", "[dim, heads * head_dim]", "output"},
    {"q_norm", "[head_dim], [heads * head_dim]", "norm of queries, with qk_norm"},
    {"k_norm", "[head_dim], [kv_heads * head_dim]", "norm of keys, with qk_norm"},
    {"buckets", "[buckets, heads]", "biases of distances"},
};

/* ---- positions */

static int scaling_of(const char *name)
{
    static const char *const names[] = {
#define X(id, name, doc) name,
        ROPE_SCALING_LIST(X)
#undef X
    };
    for (int i = 0; i < ROPE_SCALING_COUNT; i++)
        if (strcmp(names[i], name) == 0) return i;
    return ROPE_NONE;
}

/* Index of the table of cosines and sines; negative: failed. */
static int rope_table(net *b, const call *c, int dims)
{
    const attn_gqa_options *o = c->options;
    size_t n_short, n_long, n_freqs;
    const float *shorts = net_list(b, c, "rope_short", &n_short);
    const float *longs = shorts ? net_list(b, c, "rope_long", &n_long) : NULL;
    const float *freqs = longs ? net_list(b, c, "rope_freqs", &n_freqs) : NULL;
    if (!freqs) return -1;
    rope_params p = {.scaling = scaling_of(o->rope_type),
                     .dims = dims,
                     .theta = o->theta,
                     .factor = o->rope_factor,
                     .original = (int)o->rope_original,
                     .max_positions = (int)o->rope_positions,
                     .low_freq = o->rope_low_freq,
                     .high_freq = o->rope_high_freq,
                     .beta_fast = o->rope_beta_fast,
                     .beta_slow = o->rope_beta_slow,
                     .mscale = o->rope_mscale,
                     .mscale_all_dim = o->rope_mscale_all,
                     .attention_factor = o->rope_attention_factor,
                     .truncate = o->rope_truncate};
    if (n_freqs) { /* longrope whose short and long factors are the same */
        p.scaling = ROPE_LONGROPE;
        p.attention_factor = 1;
        shorts = longs = freqs;
        n_short = n_long = n_freqs;
    }
    if (p.scaling == ROPE_LONGROPE) {
        if (n_short != (size_t)dims / 2 || n_long != (size_t)dims / 2)
            return err_set(b->e, ERR_SPEC, "%s: longrope needs %d short and long factors, got %zu and %zu", c->where,
                           dims / 2, n_short, n_long);
        p.short_factor = shorts;
        p.long_factor = longs;
    }
    int table = program_rope(b->prog, &p, b->ctx, b->e);
    if (table < 0) err_wrap(b->e, "%s", c->where);
    return table;
}

static ref rotate(net *b, const call *c, const char *part, ref x, int table, int dims, int head_dim)
{
    const attn_gqa_options *o = c->options;
    int style = strcmp(o->rope, "neox") == 0 ? ROPE_HALVES : ROPE_NEIGHBOURS;
    op r = {.kind = OP_ROPE, .in = {x}, .u.rope = {dims, style, head_dim, table}};
    return net_op(b, r, c->path, part, x, net_width(b, x));
}

/* Slopes of the power of two below the number of heads, then every other one of its double. */
static ref alibi_slopes(net *b, const call *c, int heads)
{
    enum { HEADS_MAX = 1 << 12 };
    float slope[HEADS_MAX];
    if (heads > HEADS_MAX) return err_set(b->e, ERR_LIMIT, "%s: more than %d heads with alibi", c->where, HEADS_MAX), 0;
    int below = 1;
    while (below * 2 <= heads) below *= 2;
    for (int h = 0; h < heads; h++) {
        double k = h < below ? h + 1 : (2 * (h - below) + 1) / 2.0;
        slope[h] = (float)pow(2, -8.0 * k / below);
    }
    return net_const(b, c->path, "slopes", slope, heads, 0);
}

/* The learned biases and the bucket of every distance. */
static bool bucket_biases(net *b, const call *c, int heads, bool both_ways, ref *values, ref *table)
{
    const attn_gqa_options *o = c->options;
    int n = (int)o->buckets, reach = (int)o->bucket_distance;
    const char *wrong = o->alibi ? "alibi and buckets exclude each other" : buckets_check(n, reach, both_ways);
    if (wrong) return err_set(b->e, ERR_SPEC, "%s: %s", c->where, wrong), false;
    char slot[128];
    snprintf(slot, sizeof slot, "%s.buckets", c->path);
    bind_want want = {
        .slot = slot, .for_whom = c->where, .layer = b->layer, .rows = o->buckets * heads, .cut_axis = -1};
    if (bind_weight(b->bind, &want, values, b->e)) return false;
    float *of = mem_array((size_t)reach * 2 + 1, sizeof *of);
    if (!of) return err_set(b->e, ERR_MEMORY, "%s: out of memory", c->where), false;
    for (int d = -reach; d <= reach; d++) of[d + reach] = (float)bucket_of(d, n, reach, both_ways);
    *table = net_const(b, c->path, "distances", of, 2 * (int64_t)reach + 1, 0);
    mem_free(of);
    return *table != 0;
}

/* ---- the module */

static ref qk_norm(net *b, const call *c, const char *role, ref x, int head_dim)
{
    const attn_gqa_options *o = c->options;
    int64_t all = net_width(b, x);
    bool whole = strcmp(o->qk_norm, "whole") == 0;
    norm_opt n = {.kind = strcmp(o->qk_norm_kind, "rms") == 0 ? NORM_RMS : NORM_LAYER,
                  .eps = o->eps,
                  .bias = o->qk_norm_bias,
                  .width = whole ? all : head_dim,
                  .n_weight = strcmp(o->qk_norm, "head") == 0 ? head_dim : all};
    return net_norm(b, c, role, x, n);
}

static ref attend(net *b, const call *c, ref q, ref k, ref v, int head_dim)
{
    const attn_gqa_options *o = c->options;
    int heads = (int)o->heads, kv_heads = (int)(o->kv_heads ? o->kv_heads : o->heads), window = (int)o->window;
    const bool all = strcmp(o->mask, "full") == 0 || ((b->encoding || b->full) && strcmp(o->mask, "auto") == 0);
    state s = {.rows = b->prog->tensors[q].rows,
               .heads = kv_heads,
               .k_dim = head_dim,
               .v_dim = head_dim,
               .window = all ? 0 : window, /* where rows see later ones, all of a text is there */
               .scratch = all};
    int index = net_state(b, s);
    if (index < 0) return 0;
    op put = {.kind = OP_KV_PUT, .state = (int16_t)index, .in = {k, v}};
    if (!net_op(b, put, c->path, NULL, 0, 0)) return 0;
    ref biases = o->alibi ? alibi_slopes(b, c, heads) : 0, table = 0;
    if (o->alibi && !biases) return 0;
    if (o->buckets && !bucket_biases(b, c, heads, all, &biases, &table)) return 0;
    int bias = o->buckets ? BIAS_BUCKETS : BIAS_NONE;
    if (o->alibi) bias = strcmp(o->alibi_round, "bf16") == 0 ? BIAS_ALIBI_BF16 : BIAS_ALIBI;
    double scale = o->scale != 0 ? o->scale : 1 / sqrt(head_dim);
    op a = {.kind = OP_ATTN,
            .state = (int16_t)index,
            .in = {[ATTN_Q] = q, [ATTN_BIAS] = biases, [ATTN_TABLE] = table},
            .u.attn = {.scale = (float)scale,
                       .softcap = (float)o->softcap,
                       .heads = heads,
                       .window = window,
                       .ahead = !all     ? 0
                                : window ? window - 1
                                         : AHEAD_ALL,
                       .bias = bias}};
    return net_op(b, a, c->path, "mix", q, (int64_t)heads * head_dim);
}

static ref emit(net *b, const call *c)
{
    const attn_gqa_options *o = c->options;
    int64_t kv_heads = o->kv_heads ? o->kv_heads : o->heads, head_dim = o->head_dim;
    ref x = c->in[0];
    if (!head_dim && net_width(b, x) % o->heads)
        return err_set(b->e, ERR_SPEC, "%s: %lld heads do not divide the width %lld: head_dim is needed", c->where,
                       (long long)o->heads, (long long)net_width(b, x)),
               0;
    if (!head_dim) head_dim = net_width(b, x) / o->heads;
    if (o->heads % kv_heads)
        return err_set(b->e, ERR_SPEC, "%s: %lld heads are no multiple of %lld kv_heads", c->where, (long long)o->heads,
                       (long long)kv_heads),
               0;
    int hd = (int)head_dim, dims = (int)(o->rope_dims ? o->rope_dims : head_dim);
    linear_opt in = {.bias = o->bias, .cut = NET_CUT_ROWS, .pairs = hd, .rotated = dims, .unit = hd}, values = in,
               out = {.bias = o->bias_o, .cut = NET_CUT_COLS, .unit = hd};
    values.pairs = 0;
    ref q = net_linear(b, c, "q", x, o->heads * head_dim, in);
    ref k = q ? net_linear(b, c, "k", x, kv_heads * head_dim, in) : 0;
    ref v = k ? net_linear(b, c, "v", x, kv_heads * head_dim, values) : 0;
    if (v) q = net_clamp(b, c->path, "q_clip", q, o->clip);
    if (v && q) k = net_clamp(b, c->path, "k_clip", k, o->clip);
    if (v && k) v = net_clamp(b, c->path, "v_clip", v, o->clip);
    if (v && q && k && strcmp(o->qk_norm, "none") != 0) {
        q = qk_norm(b, c, "q_norm", q, hd);
        k = q ? qk_norm(b, c, "k_norm", k, hd) : 0;
    }
    if (v && q && k && strcmp(o->rope, "none") != 0) {
        int table = rope_table(b, c, dims);
        q = table >= 0 ? rotate(b, c, "q_rope", q, table, dims, hd) : 0;
        k = q ? rotate(b, c, "k_rope", k, table, dims, hd) : 0;
    }
    ref mix = v && q && k ? attend(b, c, q, k, v, hd) : 0;
    return mix ? net_linear(b, c, "o", mix, net_width(b, x), out) : 0;
}

const module module_attn_gqa = {"attn.gqa",
                                "self attention, grouped queries (arXiv 1706.03762, 1911.02150, 2305.13245)",
                                rows,
                                MODULE_COUNT(rows),
                                sizeof(attn_gqa_options),
                                weights,
                                MODULE_COUNT(weights),
                                1,
                                emit};
