/* position_learned.c - learned absolute positions: row `position + offset` of a table (GPT-2; OPT's offset is 2). */
#include "models/compile/builder.h"

typedef struct options {
    int64_t rows, offset, width;
} options;

static const param rows[] = {
    ROW(rows, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 26, .doc = "rows of the table; 0 = as many as it has"),
    ROW(offset, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "row of position 0"),
    ROW(width, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 24, .doc = "width of the table; 0 = dim"),
};
static const module_weight weights[] = {{"", "[rows, width]", "the table"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    int64_t width = o->width ? o->width : b->dim;
    ref table = builder_table(b, c, o->rows, width);
    if (!table) return 0;
    int64_t have = b->prog->tensors[table].dim[0] - o->offset;
    if (have < b->ctx)
        return err_set(b->e, ERR_LIMIT, "%s: the table has %lld positions, the context is %d", c->where,
                       (long long)have, b->ctx),
               0;
    op e = {.kind = OP_EMBED, .in = {table}, .u.embed = {EMBED_BY_POSITION, (int32_t)o->offset}};
    return builder_op(b, e, c->path, NULL, 0, width);
}

MODULE(position, learned, 0, "learned absolute positions");
