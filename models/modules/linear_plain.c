/* linear_plain.c - one linear map as a slot of its own: embedding and output projections (OPT-350m, ALBERT), layers of
 * poolers and classification heads. */
#include "models/compile/builder.h"

typedef struct options {
    int64_t out;
    const char *bias, *activation;
} options;

static const param rows[] = {
    ROW(out, PARAM_INT, .otherwise = "0", .min = -1, .max = 1 << 24,
        .doc = "width of the result; 0 = dim, -1 = as many as the matrix has rows"),
    ROW(bias, PARAM_WORD, .otherwise = "auto", .words = "auto|true|false", .doc = "adds a bias vector"),
    ROW(activation, PARAM_WORD, .otherwise = "none", .words = ACT_WORDS, .doc = "applied to the result"),
};
static const module_weight weights[] = {{"", "[out, width]", "weight; .bias beside it"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    ref y = builder_linear(b, c, "", c->in[0], o->out ? o->out : b->dim, (linear_opt){.bias = o->bias});
    return y ? builder_act_fn(b, c->path, "act", y, builder_act_kind(o->activation)) : 0;
}

MODULE(linear, plain, 1, "one linear map");
