/* ffn_xielu.c - feed-forward without gate around xIELU, an activation with two trained numbers per layer (arXiv
 * 2411.13010):
 *     p x^2 + beta x                        x > 0,  p = softplus(alpha_p)
 *     n (exp(x) - 1 - x) + beta x           else,   n = beta + softplus(alpha_n)
 * which is p relu2(x) + n exp.rest(x) + beta x with factors that are known at load. */
#include "models/compile/builder.h"

#include <math.h>
#include <stdio.h>

typedef struct options {
    int64_t ffn_dim;
    double beta, alpha_p, alpha_n, edge;
    const char *bias;
} options;

#define ABSENT -1e6 /* no model has this */

static const param rows[] = {
    ROW(ffn_dim, PARAM_INT, .min = 1, .max = 1 << 24, .doc = "inner width"),
    ROW(beta, PARAM_FLOAT, .otherwise = "0.5", .min = -1e6, .max = 1e6,
        .doc = "slope at zero, for checkpoints without a tensor of it"),
    ROW(alpha_p, PARAM_FLOAT, .otherwise = "-1e6", .min = ABSENT, .max = 1e6,
        .doc = "curvature above zero, before softplus; -1e6: the checkpoint has a tensor of it"),
    ROW(alpha_n, PARAM_FLOAT, .otherwise = "-1e6", .min = ABSENT, .max = 1e6, .doc = "the same below zero"),
    ROW(edge, PARAM_FLOAT, .otherwise = "-1e-6", .min = -1, .max = 0,
        .doc = "for exports: other readers compute exp(min(x, edge)), which gives the same floats"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "biases of both"),
};
static const module_weight weights[] = {
    {"up", "[ffn_dim, dim]", "to the inner width"},
    {"down", "[dim, ffn_dim]", "back to the hidden state"},
    {"alpha_p", "[1]", "bend above zero, before softplus"},
    {"alpha_n", "[1]", "bend below zero, before softplus"},
    {"beta", "[1]", "slope at zero"},
    {"edge", "[1]", "see the option; not read"},
};

/* The one number that the tensor of a role holds, or the option of that name where there is none; false: failed. */
static bool trained(builder *b, const call *c, const char *role, double option, double *out)
{
    bool there;
    *out = option;
    if (!builder_trained(b, c, role, out, &there)) return false;
    if (!there && option == ABSENT)
        return err_set(b->e, ERR_SPEC, "%s: %s.%s is neither a tensor nor given", c->where, c->path, role), false;
    return true;
}

static double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    linear_opt in = {.bias = o->bias}, out = {.bias = o->bias};
    double p, n, beta;
    if (!trained(b, c, "alpha_p", o->alpha_p, &p) || !trained(b, c, "alpha_n", o->alpha_n, &n)) return 0;
    if (!trained(b, c, "beta", o->beta, &beta)) return 0;
    ref up = builder_linear(b, c, "up", c->in[0], o->ffn_dim, in);
    ref above = up ? builder_act_fn(b, c->path, "relu2", up, ACT_RELU2) : 0;
    if (above) above = builder_scale(b, c->path, "above", above, softplus(p));
    ref below = above ? builder_act_fn(b, c->path, "exp_rest", up, ACT_EXP_REST) : 0;
    if (below) below = builder_scale(b, c->path, "below", below, beta + softplus(n));
    ref line = below ? builder_scale(b, c->path, "line", up, beta) : 0;
    ref bent = line ? builder_add(b, c->path, "bent", above, below) : 0;
    ref act = bent ? builder_add(b, c->path, "act", bent, line) : 0;
    return act ? builder_linear(b, c, "down", act, builder_width(b, c->in[0]), out) : 0;
}

MODULE(ffn, xielu, 1, "feed-forward without gate around xIELU, which has trained numbers (arXiv 2411.13010)");
