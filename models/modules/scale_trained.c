/* scale_trained.c - a row times one trained number (Gemma 4: of each layer). */
#include "models/compile/builder.h"

typedef struct options {
    bool optional;
} options;

static const param rows[] = {
    ROW(optional, PARAM_BOOL, .otherwise = "false", .doc = "without a tensor the factor is 1"),
};
static const module_weight weights[] = {{"", "[1]", "the factor"}};

static ref emit(builder *b, const call *c)
{
    double factor = 1;
    bool there;
    if (!builder_trained(b, c, "", &factor, &there)) return 0;
    if (!there && !((const options *)c->options)->optional)
        return err_set(b->e, ERR_SPEC, "%s: its tensor is missing", c->where), 0;
    return builder_scale(b, c->path, "scaled", c->in[0], factor);
}

MODULE(scale, trained, 1, "times one trained number");
