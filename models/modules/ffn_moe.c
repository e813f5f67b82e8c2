/* ffn_moe.c - mixture of experts: a router picks a few of many feed-forward networks for each row (arXiv 1701.06538,
 * 2401.04088).
 *
 * Rows are sorted by expert, so that each expert's matrices are read once for all its rows. Experts that every row goes
 * to are slots of their own: x + ffn(b) + ffn.shared(b). */
#include "models/compile/builder.h"

#include <string.h>

typedef struct options {
    int64_t experts, used, expert_dim, groups, groups_used, group_best;
    const char *score, *correction, *scales, *router_bias, *weigh, *act, *bias;
    bool renorm, gated;
    double factor, near, limit, shift;
} options;

static const param rows[] = {
    ROW(experts, PARAM_INT, .min = 1, .max = EXPERTS_MAX, .doc = "number of experts"),
    ROW(used, PARAM_INT, .min = 1, .max = EXPERTS_MAX, .doc = "experts that a row goes to; the same in all layers"),
    ROW(expert_dim, PARAM_INT, .min = 1, .max = 1 << 24, .doc = "inner width of an expert"),
    ROW(score, PARAM_WORD, .otherwise = "softmax", .words = SCORE_WORDS,
        .doc = "softmax over all experts or over the picked ones, sigmoid, or SparseMixer (arXiv 2409.12136)"),
    ROW(renorm, PARAM_BOOL, .otherwise = "false", .doc = "divides the weights of a row by their sum"),
    ROW(factor, PARAM_FLOAT, .otherwise = "1", .min = 0, .max = 1e6, .doc = "factor of the weights, applied last"),
    ROW(groups, PARAM_INT, .otherwise = "0", .min = 0, .max = EXPERTS_MAX,
        .doc = "number of groups of experts, of which only the best count; 0 = no groups"),
    ROW(groups_used, PARAM_INT, .otherwise = "1", .min = 1, .max = EXPERTS_MAX, .doc = "groups that count"),
    ROW(group_best, PARAM_INT, .otherwise = "1", .min = 1, .max = 2,
        .doc = "score of a group: 1, its best expert; 2, the sum of its best two"),
    ROW(near, PARAM_FLOAT, .otherwise = "0.02", .min = 0, .max = 1e6,
        .doc = "mixer: only scores within this share of the best one enter its weight"),
    ROW(correction, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "a vector added to the scores that pick experts, not to the weights"),
    ROW(scales, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false",
        .doc = "a vector of factors of the weights, one for each expert, applied last"),
    ROW(router_bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "bias of the router"),
    ROW(weigh, PARAM_WORD, .otherwise = "output", .words = "output|input",
        .doc = "weights multiply the outputs of experts, or their inputs"),
    ROW(gated, PARAM_BOOL, .otherwise = "true", .doc = "down(act(gate x) * up x), else down(act(up x))"),
    ROW(act, PARAM_WORD, .otherwise = "silu", .words = ACT_WORDS, .doc = "activation of the gate, or between the two"),
    ROW(limit, PARAM_FLOAT, .otherwise = "0", .min = 0, .max = 1e9,
        .doc = "clamps the gate to at most limit, up to -limit .. limit; 0 = no clamp"),
    ROW(shift, PARAM_FLOAT, .otherwise = "0", .min = -1e6, .max = 1e6,
        .doc = "added to up before the product with the gate"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of the experts"),
};
static const module_weight weights[] = {
    {"router", "[experts, dim]", "scores of the experts"},
    {"correction", "[experts]", "picks, but does not weigh"},
    {"scales", "[experts]", "weighs, but does not pick"},
    {"gate", "[experts][expert_dim, dim]", "what the activation is applied to"},
    {"up", "[experts][expert_dim, dim]", "what the gate multiplies"},
    {"down", "[experts][dim, expert_dim]", "back to the hidden state"},
};

static int score_of(const char *name)
{
    for (int i = 0; i < SCORE_COUNT; i++)
        if (strcmp(score_name[i], name) == 0) return i;
    return SCORE_SOFTMAX;
}

static bool route(builder *b, const call *c, builder_experts *by)
{
    const options *o = c->options;
    int used = (int)o->used;
    ref correction, scales;
    const int64_t groups = o->groups > 1 ? o->groups : 1, of_group = o->experts / groups;
    if (o->experts % groups || o->used > (groups > 1 ? o->groups_used : 1) * of_group)
        return err_set(
                   b->e, ERR_SPEC,
                   "%s: %lld of %lld experts (num_experts_per_tok, num_experts) from %lld of %lld groups (topk_group, "
                   "n_group): there are not so many",
                   c->where, (long long)o->used, (long long)o->experts, (long long)o->groups_used,
                   (long long)o->groups),
               false;
    ref scores = builder_linear(b, c, "router", c->in[1] ? c->in[1] : c->in[0], o->experts,
                                (linear_opt){.bias = o->router_bias, .keep_type = true});
    if (!scores || !builder_vector(b, c, "correction", o->correction, o->experts, &correction)) return false;
    if (!builder_vector(b, c, "scales", o->scales, o->experts, &scales)) return false;
    op r = {.kind = OP_ROUTE,
            .in = {scores, correction, scales},
            .u.route = {.score = score_of(o->score),
                        .used = used,
                        .groups = o->groups > 1 ? (int)o->groups : 0,
                        .groups_used = (int)o->groups_used,
                        .group_best = (int)o->group_best,
                        .renorm = o->renorm,
                        .factor = (float)o->factor,
                        .near = (float)o->near}};
    by->experts = (int)o->experts;
    by->route = builder_op(b, r, c->path, "route", scores, 2 * o->used);
    op d = {.kind = OP_DISPATCH, .in = {by->route}, .u.dispatch = {(int)o->experts, used}};
    by->table = by->route ? builder_op(b, d, c->path, "dispatch", 0, DISPATCH_COLS) : 0;
    return by->table != 0;
}

/* The inner rows: act(gate x) * (up x + shift), or act(up x). */
static ref inner(builder *b, const call *c, ref x, const builder_experts *by)
{
    const options *o = c->options;
    act_kind fn = builder_act_kind(o->act);
    ref gate = o->gated ? builder_linear_exp(b, c, "gate", x, by, o->expert_dim, o->bias) : 0;
    ref up = gate || !o->gated ? builder_linear_exp(b, c, "up", x, by, o->expert_dim, o->bias) : 0;
    if (!up || !o->gated) return up ? builder_act_fn(b, c->path, "act", up, fn) : 0;
    if (o->limit != 0) gate = builder_clamp_above(b, c->path, "gate_clip", gate, o->limit);
    if (gate) up = builder_clamp(b, c->path, "up_clip", up, o->limit);
    if (gate && up) up = builder_add_number(b, c->path, "up_shift", up, o->shift);
    ref act = gate && up ? builder_act_fn(b, c->path, "act", gate, fn) : 0;
    return act ? builder_mul(b, c->path, "mul", act, up) : 0;
}

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    bool input = strcmp(o->weigh, "input") == 0;
    builder_experts by;
    if (!route(b, c, &by)) return 0;
    ref x = builder_gather(b, c, c->in[0], &by, input);
    ref mid = x ? inner(b, c, x, &by) : 0;
    ref y = mid ? builder_linear_exp(b, c, "down", mid, &by, builder_width(b, c->in[0]), o->bias) : 0;
    return y ? builder_scatter(b, c, y, &by, !input) : 0;
}

MODULE_MORE(ffn, moe, 1, 1, "mixture of experts (arXiv 1701.06538); a second activation is what the router reads");
