/* attn_mla.c - multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads come from one
 * short vector per token, and only that is cached.
 *
 * Always in the absorbed form: the up-projections of keys and values move to queries and to the output, so that all
 * heads share one key (latent, rotated part) and one value (latent). The other form would be cheaper for long prompts,
 * but not the same bits. */
#include "models/compile/builder_rope.h"

#include <math.h>
#include <string.h>

typedef struct options {
    int64_t heads, q_rank, kv_rank, nope_dim, rope_dim, v_dim;
    double scale, latent_eps;
    const char *bias, *bias_o;
    rope_options rope;
} options;

static const param rows[] = {
    ROW(heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "query heads"),
    ROW(q_rank, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 20,
        .doc = "width of the latent that queries come from; 0 = none"),
    ROW(kv_rank, PARAM_INT, .min = 1, .max = 1 << 15, .doc = "width of the latent that keys and values come from"),
    ROW(nope_dim, PARAM_INT, .min = 1, .max = 1 << 15, .doc = "part of a query or key head that is not rotated"),
    ROW(rope_dim, PARAM_INT, .min = 2, .max = 1 << 15, .doc = "the part that is rotated; all heads share that of keys"),
    ROW(v_dim, PARAM_INT, .min = 1, .max = 1 << 15, .doc = "width of a head of values"),
    ROW(scale, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e6,
        .doc = "factor of scores; 0 = 1 / sqrt(nope_dim + rope_dim), times the square of yarn's magnitude where "
               "rope_mscale_all is given"),
    ROW(latent_eps, PARAM_FLOAT, .otherwise = "1e-6", .min = 0, .max = 1, .doc = "eps of the norms of latents"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "biases of the projections to latents"),
    ROW(bias_o, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the output"),
    ROPE_ROWS(options, rope),
};
static const module_weight weights[] = {
    {"q_a", "[q_rank, dim]", "input to the latent of queries, with q_rank"},
    {"q_norm", "[q_rank]", "its norm"},
    {"q_nope", "[heads * nope_dim, q_rank or dim]", "queries, the part without position"},
    {"q_rope", "[heads * rope_dim, q_rank or dim]", "and the rotated part"},
    {"kv_a", "[kv_rank, dim]", "input to the latent of keys and values"},
    {"k_rope", "[rope_dim, dim]", "the rotated part of keys"},
    {"kv_norm", "[kv_rank]", "norm of the latent"},
    {"k_b", "[heads][kv_rank, nope_dim]", "latent to keys, transposed: it is applied to queries"},
    {"v_b", "[heads][v_dim, kv_rank]", "latent to values"},
    {"o", "[dim, heads * v_dim]", "output"},
};

static double score_scale(const options *o)
{
    if (o->scale != 0) return o->scale;
    double scale = 1 / sqrt((double)(o->nope_dim + o->rope_dim)), all = o->rope.rope_mscale_all,
           factor = o->rope.rope_factor;
    if (strcmp(o->rope.rope_type, "none") == 0 || all == 0 || factor <= 1) return scale;
    double magnitude = 0.1 * all * log(factor) + 1;
    return scale * magnitude * magnitude;
}

/* Queries: the part that is multiplied with latents, [heads][kv_rank], then the rotated part. */
static ref queries(builder *b, const call *c, ref x, int table)
{
    const options *o = c->options;
    int heads = (int)o->heads, turned = (int)o->rope_dim;
    linear_opt low = {.bias = o->bias}, up = {.bias = "false"};
    norm_opt norm = {.kind = NORM_RMS, .eps = o->latent_eps, .n_weight = o->q_rank, .bias = "false"};
    if (o->q_rank) {
        x = builder_linear(b, c, "q_a", x, o->q_rank, low);
        x = x ? builder_norm(b, c, "q_norm", x, norm) : 0;
    }
    ref still = x ? builder_linear(b, c, "q_nope", x, heads * o->nope_dim, up) : 0;
    ref moved = still ? builder_linear(b, c, "q_rope", x, heads * o->rope_dim, up) : 0;
    if (moved) still = builder_linear_heads(b, c, "k_b", still, heads, o->kv_rank);
    if (moved && still) moved = builder_rotate(b, c, &o->rope, "q_turned", moved, table, turned);
    return moved && still ? builder_join(b, c, "q", still, moved, heads) : 0;
}

/* The latent of keys and values; *key: with the rotated part after it. */
static ref latent(builder *b, const call *c, ref x, int table, ref *key)
{
    const options *o = c->options;
    int turned = (int)o->rope_dim;
    linear_opt low = {.bias = o->bias};
    norm_opt norm = {.kind = NORM_RMS, .eps = o->latent_eps, .n_weight = o->kv_rank, .bias = "false"};
    ref kv = builder_linear(b, c, "kv_a", x, o->kv_rank, low);
    ref moved = kv ? builder_linear(b, c, "k_rope", x, o->rope_dim, low) : 0;
    if (moved) kv = builder_norm(b, c, "kv_norm", kv, norm);
    if (moved && kv) moved = builder_rotate(b, c, &o->rope, "k_turned", moved, table, turned);
    *key = moved && kv ? builder_join(b, c, "k", kv, moved, 1) : 0;
    return *key ? kv : 0;
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    int heads = (int)o->heads;
    ref x = c->in[0], key;
    if (strcmp(o->rope.rope, "none") == 0)
        return err_set(b->e, ERR_SPEC, "%s: rope must be neox or interleaved", c->where), 0;
    if (b->uncausal)
        return err_set(b->e, ERR_SPEC, "%s: latent attention sees earlier tokens only: causal must be true", c->where),
               0;
    int table = builder_rope_table(b, c, &o->rope, (int)o->rope_dim);
    ref q = table >= 0 ? queries(b, c, x, table) : 0, kv = q ? latent(b, c, x, table, &key) : 0;
    if (!kv) return 0;
    state s = {.axis = b->prog->tensors[q].axis,
               .heads = 1,
               .k_dim = (int32_t)(o->kv_rank + o->rope_dim),
               .v_dim = (int32_t)o->kv_rank};
    int index = builder_state(b, s);
    if (index < 0) return 0;
    op put = {.kind = OP_KV_PUT, .state = (int16_t)index, .in = {key, kv}};
    if (!builder_op(b, put, c->path, NULL, 0, 0)) return 0;
    op a = {.kind = OP_ATTN,
            .state = (int16_t)index,
            .in = {[ATTN_Q] = q},
            .u.attn = {.scale = (float)score_scale(o), .heads = heads}};
    ref mix = builder_op(b, a, c->path, "mix", q, heads * o->kv_rank);
    ref values = mix ? builder_linear_heads(b, c, "v_b", mix, heads, o->v_dim) : 0;
    return values ? builder_linear(b, c, "o", values, builder_width(b, x), (linear_opt){.bias = o->bias_o}) : 0;
}

MODULE(attn, mla, 1, "latent attention, keys and values from one short vector (arXiv 2405.04434)");
