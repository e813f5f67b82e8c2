/* weight_fill.h - a weight in the bytes in which it is held: rows of blocks one after another, or panels of 16 rows (tensor/panel.h). What
 * loading does in memory and quantizing into a file is the same work, so it gives the same bytes.
 *
 * Recipes that only move rows copy bytes, transposed files of plain types move elements, everything else goes through weight_decode_row,
 * the definition, and quant_fit. Units (rows or panels) are independent of each other: any thread fills any run of them. */
#ifndef CORE_WEIGHT_FILL_H
#define CORE_WEIGHT_FILL_H
#include "core/program.h"
#include "tensor/quant_fit.h"

#include <stdatomic.h>

typedef struct weight_fill {
    const weight *w;
    dtype type;
    bool packed;
    fit_importance importance; /* for quant_fit */
    _Atomic(int64_t) *beyond; /* the first row so far, at first INT64_MAX, that the type cannot hold; NULL: not asked */
    int method;               /* chosen by weight_fill_plan */
    int64_t units;            /* rows, or panels */
    uint64_t unit_bytes;
    uint64_t row_bytes; /* of a row of blocks */
    uint64_t scratch;   /* bytes that a call of weight_fill_units needs; 0: none */
} weight_fill;

/* How to make w as `type`; packed: in panels. ERR_USAGE when nothing can be converted to the type. */
int weight_fill_plan(weight_fill *f, const weight *w, dtype type, bool packed, err *e);

/* Units from … to - 1 into `out`, where unit `from` begins. scratch: f->scratch bytes, aligned for floats. */
void weight_fill_units(const weight_fill *f, int64_t from, int64_t to, uint8_t *out, void *scratch);

/* OK where *f->beyond is still INT64_MAX; else ERR_SPEC, which says what that row has that the type cannot hold. */
int weight_fill_check(const weight_fill *f, err *e);

#endif
