/* ssm_mamba2.c - the mixer of Mamba 2 (arXiv 2405.21060): a recurrence whose state decays by a step that each row sets
 * for each head, behind a short convolution.
 *
 * Matrices make of each row the values x and a gate, a step for each head, and vectors b and c for each group of heads.
 * State = exp(rate * step) * state + step * x b; y = state c + skip * x; then gate and norm, in the order of the
 * family. In files gate, x, b, c and step are one tensor, and the convolution is one too: recipes `rows` and `columns`
 * on its name. */
#include "models/compile/builder.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
    int64_t state_heads, head_width, state_groups, state_rows, taps;
    const char *act, *norm, *bias, *bias_mix, *bias_o;
    double eps, step_least, step_most;
    double gate_factor, x_factor, b_factor, c_factor, step_factor;
} options;

static const param rows[] = {
    ROW(state_heads, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "heads of values and steps"),
    ROW(head_width, PARAM_INT, .min = 1, .max = 1 << 16, .doc = "width of a head"),
    ROW(state_groups, PARAM_INT, .otherwise = "1", .min = 1, .max = 1 << 16,
        .doc = "groups of heads that share b and c"),
    ROW(state_rows, PARAM_INT, .min = 1, .max = RECUR_ROWS_MAX, .doc = "rows of the state: width of b and c"),
    ROW(taps, PARAM_INT, .otherwise = "4", .min = 2, .max = 1 << 10, .doc = "rows that a convolution is made of"),
    ROW(act, PARAM_WORD, .otherwise = "silu", .words = ACT_WORDS, .doc = "activation of convolutions"),
    ROW(norm, PARAM_WORD, .otherwise = "gated", .words = "gated|before|none",
        .doc = "norm of each group: of what the gate has multiplied, or before the gate, or there is none"),
    ROW(eps, PARAM_FLOAT, .otherwise = "1e-5", .min = 0, .max = 1, .doc = "eps of that norm"),
    ROW(step_least, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e30, .doc = "steps are at least that"),
    ROW(step_most, PARAM_FLOAT, .otherwise = "1e30", .min = 1e-30, .max = 1e30, .doc = "steps are at most that"),
    ROW(gate_factor, PARAM_FLOAT, .otherwise = "1", .min = -1e6, .max = 1e6, .doc = "factor of the gate"),
    ROW(x_factor, PARAM_FLOAT, .otherwise = "1", .min = -1e6, .max = 1e6, .doc = "factor of x"),
    ROW(b_factor, PARAM_FLOAT, .otherwise = "1", .min = -1e6, .max = 1e6, .doc = "factor of b"),
    ROW(c_factor, PARAM_FLOAT, .otherwise = "1", .min = -1e6, .max = 1e6, .doc = "factor of c"),
    ROW(step_factor, PARAM_FLOAT, .otherwise = "1", .min = -1e6, .max = 1e6,
        .doc = "factor of steps, before their own bias"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of the first projections"),
    ROW(bias_mix, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of convolutions"),
    ROW(bias_o, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the output"),
};
static const module_weight weights[] = {
    {"gate", "[state_heads * head_width, dim]", "silu(gate) multiplies the output of the recurrence"},
    {"x", "[state_heads * head_width, dim]", "values"},
    {"b", "[state_groups * state_rows, dim]", "a state grows by step * x b"},
    {"c", "[state_groups * state_rows, dim]", "the output of the recurrence is state c"},
    {"step", "[state_heads, dim]", "steps"},
    {"step_shift", "[state_heads]", "added to steps, before softplus"},
    {"x_kernel", "[taps, state_heads * head_width]", "convolution of x, the oldest row's weight first"},
    {"b_kernel", "[taps, state_groups * state_rows]", "convolution of b"},
    {"c_kernel", "[taps, state_groups * state_rows]", "convolution of c"},
    {"rate", "[state_heads]", "a state decays by exp(rate * step): below zero"},
    {"skip", "[state_heads]", "skip * x is added to the output of the recurrence"},
    {"norm", "[state_heads * head_width]", "weights of the norm"},
    {"o", "[dim, state_heads * head_width]", "output"},
};
#define STEP_ENDLESS 1e30

/* A projection through its convolution: "x" and "x_kernel". */
static ref mixed(builder *b, const call *c, const char *role, int64_t width, double factor)
{
    const options *o = c->options;
    char kernel[16], part[16], act[16], scaled[16];
    snprintf(kernel, sizeof kernel, "%s_kernel", role);
    snprintf(part, sizeof part, "%s_mix", role);
    snprintf(act, sizeof act, "%s_act", role);
    snprintf(scaled, sizeof scaled, "%s_scaled", role);
    ref x = builder_linear(b, c, role, c->in[0], width, (linear_opt){.bias = o->bias});
    x = x ? builder_scale(b, c->path, scaled, x, factor) : 0;
    x = x ? builder_conv(b, c, kernel, part, x, o->taps, o->bias_mix) : 0;
    return x ? builder_act_fn(b, c->path, act, x, builder_act_kind(o->act)) : 0;
}

/* max(x, least) = relu(x - least) + least. */
static ref at_least(builder *b, const call *c, ref x, double least)
{
    if (!x || least == 0) return x;
    ref over = builder_add_number(b, c->path, "step_over", x, -least);
    over = over ? builder_act_fn(b, c->path, "step_above", over, ACT_RELU) : 0;
    return over ? builder_add_number(b, c->path, "step_least", over, least) : 0;
}

/* A step for each head. */
static ref steps(builder *b, const call *c)
{
    const options *o = c->options;
    ref shift,
        x = builder_linear(b, c, "step", c->in[0], o->state_heads, (linear_opt){.bias = o->bias, .keep_type = true});
    x = x ? builder_scale(b, c->path, "step_scaled", x, o->step_factor) : 0;
    if (!x || !builder_vector(b, c, "step_shift", "true", o->state_heads, &shift)) return 0;
    x = builder_add(b, c->path, "step_sum", x, shift);
    x = x ? builder_act_fn(b, c->path, "step_act", x, ACT_SOFTPLUS) : 0;
    x = at_least(b, c, x, o->step_least);
    return x && o->step_most < STEP_ENDLESS ? builder_clamp_above(b, c->path, "step_most", x, o->step_most) : x;
}

/* What the states of all heads give, and what x gives beside them. */
static ref recurrence(builder *b, const call *c)
{
    const options *o = c->options;
    const int64_t width = o->state_heads * o->head_width, shared = o->state_groups * o->state_rows;
    op r = {
        .u.recur = {.heads = (int32_t)o->state_heads, .key_heads = (int32_t)o->state_groups, .strength = RECUR_STEP}};
    ref read = mixed(b, c, "c", shared, o->c_factor);
    ref write = read ? mixed(b, c, "b", shared, o->b_factor) : 0;
    r.in[RECUR_KEYS] = write ? builder_join(b, c, "keys", read, write, (int)o->state_groups) : 0;
    r.in[RECUR_V] = r.in[RECUR_KEYS] ? mixed(b, c, "x", width, o->x_factor) : 0;
    r.in[RECUR_STEPS] = r.in[RECUR_V] ? steps(b, c) : 0;
    if (!r.in[RECUR_STEPS] || !builder_vector(b, c, "rate", "true", o->state_heads, &r.in[RECUR_RATE])) return 0;
    ref y = builder_recur(b, c, "state", r, o->state_rows);
    ref by = y ? builder_trained_columns(b, c, "skip", o->state_heads, o->head_width) : 0;
    ref skip = by ? builder_mul(b, c->path, "skip", r.in[RECUR_V], by) : 0;
    return skip ? builder_add(b, c->path, "sum", y, skip) : 0;
}

static ref normed(builder *b, const call *c, ref y)
{
    const options *o = c->options;
    const int64_t width = builder_width(b, y);
    const norm_opt norm = {
        .kind = NORM_RMS, .eps = o->eps, .width = width / o->state_groups, .n_weight = width, .bias = "false"};
    return builder_norm(b, c, "norm", y, norm);
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    if (o->state_heads % o->state_groups)
        return err_set(b->e, ERR_SPEC, "%s: %lld state_heads are no multiple of %lld state_groups", c->where,
                       (long long)o->state_heads, (long long)o->state_groups),
               0;
    ref gate = builder_linear(b, c, "gate", c->in[0], o->state_heads * o->head_width, (linear_opt){.bias = o->bias});
    gate = gate ? builder_scale(b, c->path, "gate_scaled", gate, o->gate_factor) : 0;
    gate = gate ? builder_act_fn(b, c->path, "gate_act", gate, ACT_SILU) : 0;
    ref y = gate ? recurrence(b, c) : 0;
    if (y && strcmp(o->norm, "before") == 0) y = normed(b, c, y);
    y = y ? builder_mul(b, c->path, "gated", gate, y) : 0;
    if (y && strcmp(o->norm, "gated") == 0) y = normed(b, c, y);
    return y ? builder_linear(b, c, "o", y, builder_width(b, c->in[0]), (linear_opt){.bias = o->bias_o}) : 0;
}

MODULE(ssm, mamba2, 1, "mixer of Mamba 2: a state that decays by steps of each row (arXiv 2405.21060)");
