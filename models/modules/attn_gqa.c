/* attn_gqa.c - self attention with any numbers of heads and key/value heads (arXiv 1706.03762, 1911.02150, 2305.13245):
 * causal, in encoders over the whole text.
 *
 * Families differ by options: rotation, biases by distance, norms of queries and keys, soft-cap, window, scale. Fused
 * q/k/v tensors are three weights with recipes on one name. */
#include "base/mem.h"
#include "models/compile/builder_rope.h"
#include "models/compile/score_bias.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct options {
    int64_t heads, kv_heads, head_dim, window, chunk, kv_layers;
    const char *mask;
    double scale, softcap, clip;
    const char *bias, *bias_o;
    const char *qk_norm, *qk_norm_kind, *qk_norm_bias, *qk_norm_at, *values;
    double eps;
    rope_options rope;
    score_bias_options score;
    bool sinks, gate, clip_normed, v_norm;
    double log_scale, log_scale_every, log_scale_from;
} options;

static const param rows[] = {
    ROW(heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "query heads"),
    ROW(kv_heads, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "key/value heads; 0 = heads"),
    ROW(head_dim, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "width of a head; 0 = dim / heads"),
    ROW(window, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,
        .doc = "a token sees itself and window - 1 tokens before it (full mask: and after it); 0 = all"),
    ROW(mask, PARAM_WORD, .otherwise = "auto", .words = "auto|causal|full",
        .doc = "causal: a token sees itself and those before it; full: all; auto: full in encoders"),
    ROW(chunk, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 30,
        .doc = "tokens of a chunk; a token sees nothing before its own chunk; 0 = one chunk"),
    ROW(kv_layers, PARAM_INT, .otherwise = "-1", .min = -1, .max = 1 << 16,
        .doc = "layers that have keys and values; later ones read those of the last of them with an equal window; "
               "-1 = all"),
    ROW(values, PARAM_WORD, .otherwise = "own", .words = "own|keys|auto",
        .doc = "values by a matrix of their own, or the keys before norm and rotation; auto: keys where the checkpoint "
               "has no such matrix"),
    ROW(v_norm, PARAM_BOOL, .otherwise = "false", .doc = "rms norm of the values of a head, without weight"),
    ROW(scale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6, .doc = "factor of scores; 0 = 1 / sqrt(head_dim)"),
    ROW(softcap, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e9, .doc = "cap * tanh(score / cap); 0 = none"),
    ROW(clip, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e9,
        .doc = "clamps queries, keys and values to -clip .. clip; 0 = no clamp"),
    ROW(clip_normed, PARAM_BOOL, .otherwise = "false", .doc = "clamp after qk_norm, not before"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "biases of q, k, v; auto: when the checkpoint has them"),
    ROW(bias_o, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the output"),
    ROW(qk_norm, PARAM_WORD, .otherwise = "none", .words = "none|head|heads|whole|plain",
        .doc = "norm of queries and keys: per head (one weight for all, or one for each head), over the whole "
               "projection, or per head without weight"),
    ROW(qk_norm_kind, PARAM_WORD, .otherwise = "rms", .words = "rms|layer", .doc = "kind of qk_norm"),
    ROW(qk_norm_at, PARAM_WORD, .otherwise = "before", .words = "before|after",
        .doc = "qk_norm before or after rotation"),
    ROW(qk_norm_bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of qk_norm"),
    ROW(eps, PARAM_FLOAT, .otherwise = "1e-6", .min = 0, .max = 1, .doc = "eps of qk_norm"),
    ROPE_ROWS(options, rope),
    SCORE_BIAS_ROWS(options, score),
    ROW(sinks, PARAM_BOOL, .otherwise = "false",
        .doc = "a logit per head, without a value, takes a share of the softmax (arXiv 2309.17453, gpt-oss)"),
    ROW(gate, PARAM_BOOL, .otherwise = "false",
        .doc = "gates the output by the sigmoid of a projection of the input (arXiv 2505.06708)"),
    ROW(log_scale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,
        .doc =
            "scales queries by 1 + log_scale * log(1 + floor((position + log_scale_from) / log_scale_every)); 0 = off"),
    ROW(log_scale_every, PARAM_FLOAT, .otherwise = "8192", .min = 1, .max = 1e9, .doc = "see log_scale"),
    ROW(log_scale_from, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1e9, .doc = "see log_scale"),
};
static const module_weight weights[] = {
    {"q", "[heads * head_dim, dim]", "queries"},
    {"k", "[kv_heads * head_dim, dim]", "keys"},
    {"v", "[kv_heads * head_dim, dim]", "values"},
    {"o", "[dim, heads * head_dim]", "output"},
    {"q_norm", "[head_dim], [heads * head_dim]", "norm of queries, with qk_norm"},
    {"k_norm", "[head_dim], [kv_heads * head_dim]", "norm of keys, with qk_norm"},
    SCORE_BIAS_WEIGHT,
    {"sinks", "[heads]", "logits without a value"},
    {"gate", "[heads * head_dim, dim]", "sigmoid of it multiplies what is put out"},
};

static ref norm_of(builder *b, const call *c, const char *role, ref x, int head_dim)
{
    const options *o = c->options;
    int64_t all = builder_width(b, x);
    bool whole = strcmp(o->qk_norm, "whole") == 0, plain = strcmp(o->qk_norm, "plain") == 0;
    norm_opt n = {.kind = strcmp(o->qk_norm_kind, "rms") == 0 ? NORM_RMS : NORM_LAYER,
                  .eps = o->eps,
                  .bias = o->qk_norm_bias,
                  .width = whole ? all : head_dim,
                  .n_weight = plain                             ? 0
                              : strcmp(o->qk_norm, "head") == 0 ? head_dim
                                                                : all};
    return builder_norm(b, c, role, x, n);
}

/* k 0: the layer has none. */
static bool qk_norm(builder *b, const call *c, ref *q, ref *k, int head_dim)
{
    return (*q = norm_of(b, c, "q_norm", *q, head_dim)) && (!*k || (*k = norm_of(b, c, "k_norm", *k, head_dim)));
}

static bool clip(builder *b, const call *c, ref *q, ref *k, ref *v)
{
    double limit = ((const options *)c->options)->clip;
    return (*q = builder_clamp(b, c->path, "q_clip", *q, limit)) &&
           (!*k || (*k = builder_clamp(b, c->path, "k_clip", *k, limit))) &&
           (!*v || (*v = builder_clamp(b, c->path, "v_clip", *v, limit)));
}

/* Queries that grow with the logarithm of their position (arXiv 2501.19399). */
static ref log_scale(builder *b, const call *c, ref q)
{
    const options *o = c->options;
    if (o->log_scale == 0) return q;
    float *by = mem_array((size_t)b->ctx, sizeof *by);
    if (!by) return err_memory(b->e, c->where), 0;
    for (int i = 0; i < b->ctx; i++)
        by[i] = (float)(1 + o->log_scale * log1p(floor((i + o->log_scale_from) / o->log_scale_every)));
    ref table = builder_const(b, c->path, "log_scale", by, b->ctx, 1);
    mem_free(by);
    op e = {.kind = OP_EMBED, .in = {table}, .u.embed.by = EMBED_BY_POSITION};
    ref factor = table ? builder_op(b, e, c->path, "q_factor", q, 1) : 0;
    return factor ? builder_mul(b, c->path, "q_log_scale", q, factor) : 0;
}

/* Whether the layer reads the keys and values of an earlier one. */
static bool reads_earlier(const builder *b, const options *o)
{
    return o->kv_layers >= 0 && b->layer >= o->kv_layers && b->layer < ENCODER;
}

/* The state of the last layer that has one of its own and sees as far back. */
static int earlier_state(builder *b, const call *c, const state *like, int window)
{
    const program *p = b->prog;
    const options *o = c->options;
    for (uint32_t i = p->n_op; i-- > 0;) {
        const op *a = &p->ops[i];
        if (a->kind != OP_ATTN || a->layer - p->n_enc >= o->kv_layers || a->u.attn.window != window) continue;
        const state *s = &p->states[a->state];
        if (s->axis != like->axis) continue;
        if (s->heads == like->heads && s->k_dim == like->k_dim) return a->state;
        return err_set(b->e, ERR_SPEC, "%s: layer %d has %d heads of %d, and would read %d heads of %d of layer %d",
                       c->where, b->layer, like->heads, like->k_dim, s->heads, s->k_dim, a->layer - p->n_enc);
    }
    return err_set(b->e, ERR_SPEC,
                   "%s: layer %d has no keys of its own, and no layer before %lld has some with window %d", c->where,
                   b->layer, (long long)o->kv_layers, window);
}

/* The state of the layer, with k and v in it; k 0: that of an earlier one. A negative code on error. */
static int state_of(builder *b, const call *c, const state *s, int window, ref k, ref v)
{
    if (!k) return earlier_state(b, c, s, window);
    const int index = builder_state(b, *s);
    op put = {.kind = OP_KV_PUT, .state = (int16_t)index, .in = {k, v}};
    if (index < 0) return index;
    return builder_op(b, put, c->path, NULL, 0, 0) ? index : b->e->code;
}

static ref emit_attention(builder *b, const call *c, ref q, ref k, ref v, int head_dim)
{
    const options *o = c->options;
    int heads = (int)o->heads, kv_heads = (int)(o->kv_heads ? o->kv_heads : o->heads), window = (int)o->window;
    const bool all = strcmp(o->mask, "full") == 0 ||
                     ((b->encoding || b->bidirectional) && strcmp(o->mask, "auto") == 0);
    if (all && b->uncausal && (o->chunk || o->score.alibi))
        return err_set(b->e, ERR_SPEC, "%s: with chunks or alibi only earlier tokens are seen: causal must be true",
                       c->where),
               0;
    if (all && b->uncausal && window) window++; /* |i - j| <= window */
    if (o->chunk && !all && (!window || o->chunk < window)) window = (int)o->chunk;
    state s = {.axis = b->prog->tensors[q].axis,
               .heads = kv_heads,
               .k_dim = head_dim,
               .v_dim = head_dim,
               .window = all ? 0 : window, /* where rows see later ones, the whole text is kept */
               .scratch = all && o->kv_layers < 0};
    const int index = state_of(b, c, &s, window, k, v);
    if (index < 0) return 0;
    ref sinks = 0;
    if (o->sinks && !builder_vector(b, c, "sinks", "true", heads, &sinks)) return 0;
    score_bias bias;
    if (!builder_score_bias(b, c, &o->score, heads, all, &bias)) return 0;
    double scale = o->scale != 0 ? o->scale : 1 / sqrt(head_dim);
    op a = {.kind = OP_ATTN,
            .state = (int16_t)index,
            .in = {[ATTN_Q] = q, [ATTN_BIAS] = bias.values, [ATTN_SINKS] = sinks, [ATTN_TABLE] = bias.table},
            .u.attn = {.scale = (float)scale,
                       .softcap = (float)o->softcap,
                       .heads = heads,
                       .window = window,
                       .chunk = (int32_t)o->chunk,
                       .ahead = !all     ? 0
                                : window ? window - 1
                                         : AHEAD_ALL,
                       .bias = bias.kind}};
    return builder_op(b, a, c->path, "mix", q, (int64_t)heads * head_dim);
}

static bool rotate(builder *b, const call *c, ref *q, ref *k, int head_dim, int dims)
{
    const rope_options *o = &((const options *)c->options)->rope;
    if (strcmp(o->rope, "none") == 0 || dims == 0) return true;
    int table = builder_rope_table(b, c, o, dims);
    return table >= 0 && (*q = builder_rotate(b, c, o, "q_rope", *q, table, head_dim)) &&
           (!*k || (*k = builder_rotate(b, c, o, "k_rope", *k, table, head_dim)));
}

/* The heads' result times the sigmoid of a projection of the input. */
static ref gated(builder *b, const call *c, ref mix)
{
    const bool bare = strcmp(((const options *)c->options)->bias, "false") == 0;
    const linear_opt with = {.bias = bare ? "false" : "auto"};
    ref gate = builder_linear(b, c, "gate", c->in[0], builder_width(b, mix), with);
    gate = gate ? builder_act_fn(b, c->path, "gate_act", gate, ACT_SIGMOID) : 0;
    return gate ? builder_mul(b, c->path, "gated", mix, gate) : 0;
}

/* Keys and values of the layer; 0 and true: it has none. */
static bool keys_and_values(builder *b, const call *c, int64_t width, linear_opt in, ref *k, ref *v)
{
    const options *o = c->options;
    char slot[128];
    bool own = strcmp(o->values, "own") == 0;
    *k = *v = 0;
    if (reads_earlier(b, o)) return true;
    snprintf(slot, sizeof slot, "%s.v", c->path);
    if (strcmp(o->values, "auto") == 0 && bind_has(b->bind, slot, b->layer, &own, b->e)) return false;
    *k = builder_linear(b, c, "k", c->in[0], width, in);
    in.pairs = 0;
    *v = *k && own ? builder_linear(b, c, "v", c->in[0], width, in) : *k;
    return *v != 0;
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    ref x = c->in[0];
    int64_t kv_heads = o->kv_heads ? o->kv_heads : o->heads, head_dim = builder_head_dim(b, c, o->heads, o->head_dim);
    if (!head_dim) return 0;
    if (o->heads % kv_heads)
        return err_set(b->e, ERR_SPEC, "%s: %lld heads are no multiple of %lld kv_heads", c->where, (long long)o->heads,
                       (long long)kv_heads),
               0;
    int hd = (int)head_dim, dims = (int)(o->rope.rope_dims < 0 ? head_dim : o->rope.rope_dims);
    linear_opt in = {.bias = o->bias, .pairs = hd, .rotated = dims}, out = {.bias = o->bias_o};
    ref q = builder_linear(b, c, "q", x, o->heads * head_dim, in), k, v;
    bool normed = strcmp(o->qk_norm, "none") != 0, after = strcmp(o->qk_norm_at, "after") == 0;
    bool ok = q && keys_and_values(b, c, kv_heads * head_dim, in, &k, &v);
    if (ok && v && o->v_norm) ok = (v = builder_norm(b, c, "v_norm", v, (norm_opt){NORM_RMS, o->eps, hd})) != 0;
    if (ok && !o->clip_normed) ok = clip(b, c, &q, &k, &v);
    if (ok && normed && !after) ok = qk_norm(b, c, &q, &k, hd);
    if (ok && o->clip_normed) ok = clip(b, c, &q, &k, &v);
    ok = ok && rotate(b, c, &q, &k, hd, dims);
    if (ok && normed && after) ok = qk_norm(b, c, &q, &k, hd);
    if (ok) q = log_scale(b, c, q);
    ref mix = ok && q ? emit_attention(b, c, q, k, v, hd) : 0;
    if (mix && o->gate) mix = gated(b, c, mix);
    return mix ? builder_linear(b, c, "o", mix, builder_width(b, x), out) : 0;
}

MODULE(attn, gqa, 1, "self attention, grouped queries (arXiv 1706.03762, 1911.02150, 2305.13245)");
