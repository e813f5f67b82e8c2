/* scale_trained.c - a row times a trained number (of each layer: Gemma 4), or one for each column (AltUp). */
#include "models/compile/builder.h"

typedef struct options {
    bool optional, each;
} options;

static const param rows[] = {
    ROW(optional, PARAM_BOOL, .otherwise = "false", .doc = "without a tensor the factor is 1"),
    ROW(each, PARAM_BOOL, .otherwise = "false", .doc = "a factor for each column"),
};
static const module_weight weights[] = {{"", "[1], [width]", "the factor"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    double factor = 1;
    bool there;
    ref by;
    if (o->each && !builder_vector(b, c, "", o->optional ? "auto" : "true", builder_width(b, c->in[0]), &by)) return 0;
    if (o->each) return by ? builder_mul(b, c->path, "scaled", c->in[0], by) : c->in[0];
    if (!builder_trained(b, c, "", &factor, &there)) return 0;
    if (!there && !o->optional) return err_set(b->e, ERR_SPEC, "%s: its tensor is missing", c->where), 0;
    return builder_scale(b, c->path, "scaled", c->in[0], factor);
}

MODULE(scale, trained, 1, "times a trained number, or one for each column");
