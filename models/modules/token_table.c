/* token_table.c - token embeddings: row `id` of a table. */
#include "models/compile/builder.h"

typedef struct options {
    int64_t vocab, width;
} options;

static const param rows[] = {
    ROW(vocab, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 26, .doc = "ids; 0 = as many as the table has rows"),
    ROW(width, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 24, .doc = "width of the table; 0 = dim"),
};
static const module_weight weights[] = {{"", "[vocab, width]", "the table; a tied head reads it too"}};

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    int64_t width = o->width ? o->width : b->dim;
    ref table;
    bind_want want = {
        .slot = c->path, .for_whom = c->where, .layer = b->layer, .rows = o->vocab, .cols = width, .table = true};
    if (bind_weight(b->bind, &want, &table, b->e)) return 0;
    op e = {.kind = OP_EMBED, .in = {table}, .u.embed = {EMBED_BY_TOKEN, 0}};
    return builder_op(b, e, c->path, NULL, 0, width);
}

MODULE(token, table, 0, "token embeddings");
