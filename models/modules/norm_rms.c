/* norm_rms.c - root mean square norm, x / sqrt(mean(x^2) + eps) * w (arXiv 1910.07467). Families that store w - 1
 * (Gemma, Nemotron) say `(+ 1)` after the tensor's name. */
#include "models/compile/builder.h"

typedef struct options {
    double eps;
    int64_t width;
    bool weight;
    const char *bias;
} options;

static const param rows[] = {
    ROW(eps, PARAM_FLOAT, .min = 0, .max = 1, .doc = "added to the mean square"),
    ROW(width, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 24,
        .doc = "elements that are normalised together, with the same weights; 0 = a row"),
    ROW(weight, PARAM_BOOL, .otherwise = "true", .doc = "multiplies by a weight vector"),
    ROW(bias, PARAM_WORD, .otherwise = "false", .words = "auto|true|false", .doc = "adds a bias vector"),
};
static const module_weight weights[] = {{"", "[width]", "weight; .bias beside it"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    const int64_t row = builder_width(b, c->in[0]), width = o->width ? o->width : row;
    norm_opt n = {.kind = NORM_RMS, .eps = o->eps, .width = width, .n_weight = o->weight ? width : 0, .bias = o->bias};
    if (row % width)
        return err_set(b->e, ERR_SPEC, "%s: width %lld does not divide a row of %lld", c->where, (long long)width,
                       (long long)row),
               0;
    return builder_norm(b, c, "", c->in[0], n);
}

MODULE(norm, rms, 1, "root mean square norm (arXiv 1910.07467)");
