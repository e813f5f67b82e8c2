/* product.c - see product.h. */
#include "models/compile/product.h"

#include <inttypes.h>

static bool is_vector(const ckpt_entry *t, int64_t n) { return !t || (t->dims.rank == 1 && t->dims.dim[0] == n); }

/* Why a tensor cannot be an operand of a product, or NULL. Its rows must begin at a block of their type. */
static const char *operand_mistake(const ckpt_entry *t, int rank)
{
    if (!t) return NULL;
    if (t->stored || t->packed) return "is quantized";
    if (t->dims.rank != rank) return rank == 2 ? "is no matrix" : "is no vector";
    const bool whole = rank == 1 ? dtype_info[t->type].weights == 1 : t->dims.dim[1] % dtype_info[t->type].weights == 0;
    return whole ? NULL : "has blocks that cross rows";
}

static int check(const product_parts *p, const char *where, err *e)
{
    const ckpt_entry *all[] = {p->table, p->by, p->bias, p->gain, p->shift};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *wrong = operand_mistake(all[i], i < 2 ? 2 : 1);
        if (wrong) return err_set(e, ERR_SPEC, "%s: tensor '%.200s' %s", where, all[i]->name, wrong);
    }
    const int64_t width = p->table->dims.dim[1], outs = p->by->dims.dim[0];
    if (p->table->dims.dim[0] > INT32_MAX)
        return err_set(e, ERR_LIMIT, "%s: '%.200s' has more than %d rows", where, p->table->name, INT32_MAX);
    if (width > PRODUCT_WIDTH_MAX)
        return err_set(e, ERR_LIMIT, "%s: rows of '%.200s' have more than %d elements", where, p->table->name,
                       PRODUCT_WIDTH_MAX);
    if (p->by->dims.dim[1] == width && outs % p->parts == 0 && is_vector(p->bias, outs) && is_vector(p->gain, width) &&
        is_vector(p->shift, width) && !p->gain == !p->shift)
        return OK;
    return err_set(e, ERR_SPEC,
                   "%s: rows of %" PRId64 " elements ('%.200s') do not fit '%.200s' [%" PRId64 ", %" PRId64
                   "], its bias or their norm, in %d parts",
                   where, width, p->table->name, p->by->name, outs, p->by->dims.dim[1], p->parts);
}

static stored_part part_of(const ckpt_entry *t) { return t ? (stored_part){t->data, t->type} : (stored_part){0}; }

static void add_source(stored_matrix *s, const ckpt *c, const ckpt_entry *t)
{
    if (!t) return;
    s->source[s->n_source].entry = ckpt_index(c, t);
    s->source[s->n_source++].bytes = t->bytes;
}

int product_entry(const ckpt_entry **out, const product_parts *p, const ckpt *c, arena *mem, const char *where, err *e)
{
    int rc = check(p, where, e);
    if (rc) return rc;
    const int64_t rows = p->table->dims.dim[0], cols = p->by->dims.dim[0] / p->parts;
    stored_product *m = arena_alloc(mem, sizeof *m);
    stored_matrix *s = arena_alloc(mem, sizeof *s);
    ckpt_entry *t = arena_alloc(mem, sizeof *t);
    const char *norm = p->gain ? arena_printf(mem, " norm %s eps %.9g", p->gain->name, p->eps) : "",
               *name = norm ? arena_printf(mem, "%s%s through %s", p->table->name, norm, p->by->name) : NULL;
    if (!m || !s || !t || !name) return err_memory(e, where);
    *m = (stored_product){.table = part_of(p->table),
                          .by = part_of(p->by),
                          .bias = part_of(p->bias),
                          .gain = part_of(p->gain),
                          .shift = part_of(p->shift),
                          .rows = rows,
                          .width = p->table->dims.dim[1],
                          .eps = p->eps};
    *s = (stored_matrix){
        .type = DTYPE_F32, .form = STORED_PRODUCT, .rows = rows * p->parts, .cols = cols, .factor = 1, .product = m};
    const ckpt_entry *all[] = {p->table, p->by, p->bias, p->gain, p->shift};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) add_source(s, c, all[i]);
    *t = *p->table;
    t->name = name;
    t->type = DTYPE_F32;
    t->of = ckpt_index(c, p->table);
    t->stored = s;
    t->dims = p->parts > 1 ? (shape){3, {p->parts, rows, cols}} : (shape){2, {rows, cols}};
    *out = t;
    return OK;
}
