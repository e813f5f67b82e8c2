/* delta_gated.c - gated delta rule (arXiv 2412.06464; Qwen3-Next, Qwen3.5): linear attention whose state decays and
 * forgets of a key what it is told anew.
 *
 * Queries, keys and values are projections, each through a causal convolution of a few rows and an activation; queries
 * and keys get length 1. Each value head has a step and a strength for each row. What comes out is normalised head by
 * head and gated. In files several of these matrices are one tensor: `rows` and `every` recipes on its name; the
 * convolution is one too: `conv1d` and `columns`. */
#include "models/compile/builder.h"

#include <math.h>
#include <string.h>

typedef struct options {
    int64_t value_heads, value_dim, key_heads, key_dim, taps;
    const char *order, *act;
    double reach, eps;
} options;

static const param rows[] = {
    ROW(value_heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "heads of values, steps and strengths"),
    ROW(value_dim, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "width of a value head"),
    ROW(key_heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "heads of queries and keys; value heads share them"),
    ROW(key_dim, PARAM_INT, .min = 1, .max = RECUR_ROWS_MAX, .doc = "width of a key head: rows of the state"),
    ROW(order, PARAM_WORD, .otherwise = "grouped", .words = "grouped|tiled",
        .doc = "value heads of a key head follow one another, or lie key_heads apart (GGUF)"),
    ROW(taps, PARAM_INT, .otherwise = "4", .min = 2, .max = 1 << 10, .doc = "rows that a convolution is made of"),
    ROW(act, PARAM_WORD, .otherwise = "silu", .words = ACT_WORDS, .doc = "activation of convolutions"),
    ROW(reach, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 2,
        .doc = "greatest strength; beyond 1 a state may change its sign"),
    ROW(eps, PARAM_FLOAT, .otherwise = "1e-6", .min = 0, .max = 1, .doc = "eps of the norm of what comes out"),
};
static const module_weight weights[] = {
    {"q", "[key_heads * key_dim, dim]", "queries"},
    {"k", "[key_heads * key_dim, dim]", "keys"},
    {"v", "[value_heads * value_dim, dim]", "values"},
    {"q_kernel", "[taps, key_heads * key_dim]", "convolution of queries, the oldest row's weight first"},
    {"k_kernel", "[taps, key_heads * key_dim]", "convolution of keys"},
    {"v_kernel", "[taps, value_heads * value_dim]", "convolution of values"},
    {"step", "[value_heads, dim]", "steps, before softplus; with a bias"},
    {"rate", "[value_heads]", "a state decays by exp(rate * step): below zero"},
    {"strength", "[value_heads, dim]", "how much of a value is taken up, before sigmoid"},
    {"norm", "[value_dim]", "norm of each head that comes out"},
    {"gate", "[value_heads * value_dim, dim]", "silu(gate) multiplies the output of the recurrence"},
    {"o", "[dim, value_heads * value_dim]", "output"},
};
#define UNIT_EPS 1e-6 /* of lengths: x / sqrt(sum of squares + eps) */

/* A projection through its convolution: "q" and "q_kernel". */
static ref mixed(builder *b, const call *c, const char *role, int64_t width)
{
    const options *o = c->options;
    char kernel[16], part[16], act[16];
    snprintf(kernel, sizeof kernel, "%s_kernel", role);
    snprintf(part, sizeof part, "%s_mix", role);
    snprintf(act, sizeof act, "%s_act", role);
    ref x = builder_linear(b, c, role, c->in[0], width, (linear_opt){.bias = "false"});
    x = x ? builder_conv(b, c, kernel, part, x, o->taps, "false") : 0;
    return x ? builder_act_fn(b, c->path, act, x, builder_act_kind(o->act)) : 0;
}

/* Each head of length `length`. NORM divides by the root of a mean of squares, which is that of their sum by the root
 * of the width. */
static ref of_length(builder *b, const call *c, const char *part, ref x, int64_t width, double length)
{
    float gain[RECUR_ROWS_MAX];
    char name[16];
    snprintf(name, sizeof name, "%s_length", part);
    for (int64_t i = 0; i < width; i++) gain[i] = (float)(length / sqrt((double)width));
    ref gains = x ? builder_const(b, c->path, name, gain, width, 0) : 0;
    op o = {.kind = OP_NORM,
            .in = {x, gains},
            .u.norm = {.eps = (float)(UNIT_EPS / (double)width), .kind = NORM_RMS, .width = (int32_t)width}};
    return gains ? builder_op(b, o, c->path, part, x, builder_width(b, x)) : 0;
}

/* A query and a key for each key head; queries are divided by the root of their width. */
static ref queries_and_keys(builder *b, const call *c)
{
    const options *o = c->options;
    const int64_t width = o->key_heads * o->key_dim;
    ref q = of_length(b, c, "q_unit", mixed(b, c, "q", width), o->key_dim, 1 / sqrt((double)o->key_dim));
    ref k = q ? of_length(b, c, "k_unit", mixed(b, c, "k", width), o->key_dim, 1) : 0;
    return k ? builder_join(b, c, "keys", q, k, (int)o->key_heads) : 0;
}

/* A step and a strength for each value head. */
static ref steps_and_strengths(builder *b, const call *c)
{
    const options *o = c->options;
    const int64_t heads = o->value_heads;
    const linear_opt narrow = {.bias = "false", .keep_type = true};
    ref step = builder_linear(b, c, "step", c->in[0], heads, (linear_opt){.bias = "true", .keep_type = true});
    ref times = step ? builder_act_fn(b, c->path, "step_act", step, ACT_SOFTPLUS) : 0;
    ref strength = times ? builder_linear(b, c, "strength", c->in[0], heads, narrow) : 0;
    ref share = strength ? builder_act_fn(b, c->path, "strength_act", strength, ACT_SIGMOID) : 0;
    share = share ? builder_scale(b, c->path, "strength_reach", share, o->reach) : 0;
    return share ? builder_join(b, c, "steps", times, share, (int)heads) : 0;
}

static ref recurrence(builder *b, const call *c)
{
    const options *o = c->options;
    const bool tiled = strcmp(o->order, "tiled") == 0;
    op r = {.u.recur = {.heads = (int32_t)o->value_heads,
                        .key_heads = (int32_t)o->key_heads,
                        .tiled = tiled && o->value_heads != o->key_heads,
                        .delta = 1,
                        .strength = RECUR_OWN}};
    if (o->value_heads % o->key_heads)
        return err_set(b->e, ERR_SPEC, "%s: %lld value_heads are no multiple of %lld key_heads", c->where,
                       (long long)o->value_heads, (long long)o->key_heads),
               0;
    r.in[RECUR_KEYS] = queries_and_keys(b, c);
    r.in[RECUR_V] = r.in[RECUR_KEYS] ? mixed(b, c, "v", o->value_heads * o->value_dim) : 0;
    r.in[RECUR_STEPS] = r.in[RECUR_V] ? steps_and_strengths(b, c) : 0;
    if (!r.in[RECUR_STEPS] || !builder_vector(b, c, "rate", "true", o->value_heads, &r.in[RECUR_RATE])) return 0;
    return builder_recur(b, c, "state", r, o->key_dim);
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    const linear_opt plain = {.bias = "false"};
    const norm_opt norm = {
        .kind = NORM_RMS, .eps = o->eps, .width = o->value_dim, .n_weight = o->value_dim, .bias = "false"};
    ref y = recurrence(b, c);
    y = y ? builder_norm(b, c, "norm", y, norm) : 0;
    ref gate = y ? builder_linear(b, c, "gate", c->in[0], builder_width(b, y), plain) : 0;
    gate = gate ? builder_act_fn(b, c->path, "gate_act", gate, ACT_SILU) : 0;
    y = gate ? builder_mul(b, c->path, "gated", gate, y) : 0;
    return y ? builder_linear(b, c, "o", y, builder_width(b, c->in[0]), plain) : 0;
}

MODULE(delta, gated, 1, "gated delta rule behind short convolutions (arXiv 2412.06464)");
