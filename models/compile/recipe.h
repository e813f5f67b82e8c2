/* recipe.h - one name of a [tensors] line with what is done to its values. */
#pragma once
#include "models/spec/config_eval.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct recipe {
    const char *source; /* "gguf", …; "" = any checkpoint */
    const char *name;   /* with {i} filled in */
    const char *tail;   /* of a stack of tensors, name + number + tail for from <= number < to; NULL: one tensor */
    int64_t from, to;
    bool fit; /* transpose follows from the shape */
    bool transpose, rope_pairs, normalize_rows, sliced;
    bool whole_head;             /* and rope_pairs: of a head, all rows, whatever part of it rotates */
    bool conv1d;                 /* and transpose: written with an axis of one between rows and columns */
    bool kernel;                 /* a Conv1d's [out, in, taps] as [out, in * taps] */
    bool alone;                  /* a tensor X.scale beside X.weight is no factor of it */
    bool exponential;            /* exp(w), before mul and add */
    bool flat, bare;             /* for exports: a stack without an axis of its own; a name without .weight */
    int64_t lines;               /* for exports: a vector is written as so many rows, 1: without rows; 0: as it lies */
    int64_t row0, block, stride; /* sliced: rows row0 + n / block * stride + n % block; block 0: one run of `rows` */
    int64_t rows;                /* of a run; 0 = as many as are wanted */
    int64_t col0, cols;          /* columns col0 … col0 + cols - 1; cols 0: all */
    const char *through;         /* NULL, or the linear layer whose outputs for the tensor's rows are taken */
    const char *norm;            /* NULL, or the layer norm that the rows pass first */
    double norm_eps;
    double mul, add;
} recipe;

/* Whether values change, not only places. */
static inline bool recipe_changes(const recipe *r)
{
    return r->normalize_rows || r->exponential || r->mul != 1 || r->add != 0;
}

/* The alternative `part` of a line at a layer. Names and numbers may use [config] and i. */
int recipe_parse(recipe *out, config_eval *values, arena *mem, span part, int layer, const char *where, err *e);
