/* weight_fill.h - a weight in the bytes in which it is held: rows of blocks one after another, or panels of 16 rows
 * (tensor/panel.h). What loading does in memory and quantizing into a file is the same work, so it gives the same
 * bytes.
 *
 * Recipes that only move rows copy bytes, transposed files of plain types move elements, everything else goes through
 * weight_decode_row, the definition, and quant_fit. Units (rows or panels) are independent of each other: several
 * threads give the same bytes. A window has the codes and scales of the whole: whole rows are encoded, then columns
 * taken; panels of a file are copied, or row by row where the window's are not the same 16 rows. */
#pragma once
#include "core/program.h"
#include "tensor/quant_fit.h"

typedef struct weight_fill {
    const weight *w;
    dtype type;
    bool packed;
    fit_importance importance; /* for quant_fit; by row and column of the whole */
    int method;                /* chosen by weight_fill_plan */
    int64_t units;             /* rows, or panels */
    uint64_t unit_bytes;
    uint64_t row_bytes; /* of a row of blocks of the whole */
    uint64_t skip;      /* of these, before the columns of a window */
    uint64_t scratch;   /* bytes that each thread needs */
    int64_t from, to;   /* units to fill; at first all */
    uint8_t *out;       /* where unit `from` goes */
} weight_fill;

/* How to make w as `type`; packed: in panels. ERR_USAGE when nothing can be converted to the type. */
int weight_fill_plan(weight_fill *f, const weight *w, dtype type, bool packed, err *e);

/* Fills the units of n weights. ERR_SPEC names the first weight and row with a value that the type cannot hold. */
int weight_fill_run(const weight_fill *f, size_t n, int threads, err *e);
