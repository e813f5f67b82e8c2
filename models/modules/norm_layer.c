/* norm_layer.c - layer norm, (x - mean) / sqrt(variance + eps) * w + b (arXiv 1607.06450). OLMo's has no weight. */
#include "models/compile/builder.h"

typedef struct options {
    double eps;
    bool weight;
    const char *bias;
} options;

static const param rows[] = {
    ROW(eps, PARAM_FLOAT, .min = 0, .max = 1, .doc = "added to the variance"),
    ROW(weight, PARAM_BOOL, .otherwise = "true", .doc = "multiplies by a weight vector"),
    ROW(bias, PARAM_WORD, .otherwise = "true", .words = "auto|true|false",
        .doc = "adds a bias vector; auto: when the checkpoint has one"),
};
static const module_weight weights[] = {{"", "[width]", "weight; .bias beside it"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    norm_opt n = {
        .kind = NORM_LAYER, .eps = o->eps, .n_weight = o->weight ? builder_width(b, c->in[0]) : 0, .bias = o->bias};
    return builder_norm(b, c, "", c->in[0], n);
}

MODULE(norm, layer, 1, "layer norm (arXiv 1607.06450)");
