/* product.h - the recipe `through`: rows of a table that have passed a linear layer, as an entry that is bound like any
 * other (tensor/stored.h: STORED_PRODUCT). */
#pragma once
#include "base/arena.h"
#include "io/ckpt.h"

typedef struct product_parts {
    const ckpt_entry *table, *by;          /* [rows, width], [parts * cols, width] */
    const ckpt_entry *bias, *gain, *shift; /* NULL: none; gain and shift of the norm that the rows pass first */
    double eps;
    int parts; /* matrices that the layer's outputs are divided into, one below the other */
} product_parts;

/* The entry [parts, rows, cols], in `mem`. ERR_SPEC: shapes or forms do not fit; `where` begins the message. */
int product_entry(const ckpt_entry **out, const product_parts *p, const ckpt *c, arena *mem, const char *where, err *e);
