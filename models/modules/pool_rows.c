/* pool_rows.c - all rows of a text become one, its embedding: the first, the mean, or the last. */
#include "models/compile/builder.h"

#include <string.h>

typedef struct options {
    const char *pooling;
    int64_t skip;
} options;

static const param rows[] = {
    ROW(pooling, PARAM_WORD, .otherwise = "mean", .words = "cls|mean|last",
        .doc = "cls: the first row; mean: over all rows; last: the last row"),
    ROW(skip, PARAM_INT, .otherwise = "-1", .min = -1, .max = INT32_MAX - 1,
        .doc = "last: of the rows whose token is not this one (padding); -1 = of all"),
};

static const module_weight weights[0];

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    int how = strcmp(o->pooling, "cls") == 0 ? POOL_FIRST : strcmp(o->pooling, "mean") == 0 ? POOL_MEAN : POOL_LAST;
    op p = {.kind = OP_POOL, .in = {c->in[0]}, .u.pool = {how, how == POOL_LAST ? (int32_t)o->skip + 1 : 0}};
    return builder_op(b, p, c->path, NULL, c->in[0], builder_width(b, c->in[0]));
}

MODULE(pool, rows, 1, "one row for a text: its first, its last, or the mean");
