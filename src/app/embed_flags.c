/* embed_flags.c - see embed_flags.h. */
#include "app/embed_flags.h"

#include <string.h>

const param embed_param_rows[] = {
    PARAM_ROW(
        embed_flags, pooling, PARAM_WORD, .words = "cls|mean|last|none",
        .doc = "how the states of a text become one vector; none: a vector for each token (default: the model's)"),
    PARAM_ROW(embed_flags, normalize, PARAM_BOOL,
              .doc = "scale vectors to length 1 (default: on, unless the model's files say otherwise)"),
};
const size_t embed_param_count = sizeof embed_param_rows / sizeof *embed_param_rows;

void embed_flags_apply(const invocation *v, const embed_flags *f, engine_options *o)
{
    if (f->pooling && strcmp(f->pooling, "none") != 0) o->pooling = f->pooling;
    for (size_t i = 0; i < v->n_given; i++)
        if (v->given[i] == &embed_param_rows[1]) o->normalize = f->normalize ? "on" : "off";
}
