/* type_table.c - token types: which of two texts a token belongs to, as rows of a table (arXiv 1810.04805). */
#include "models/compile/builder.h"

typedef struct options {
    int64_t types, width;
} options;

static const param rows[] = {
    ROW(types, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16,
        .doc = "types; 0 = as many as the table has rows"),
    ROW(width, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 24, .doc = "width of the table; 0 = dim"),
};
static const module_weight weights[] = {{"", "[types, width]", "the table"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    int64_t width = o->width ? o->width : b->dim;
    ref table = builder_table(b, c, o->types, width);
    if (!table) return 0;
    op e = {.kind = OP_EMBED, .in = {table}, .u.embed = {EMBED_BY_TYPE, 0}};
    return builder_op(b, e, c->path, NULL, 0, width);
}

MODULE(type, table, 0, "token type embeddings: which of two texts (arXiv 1810.04805)");
