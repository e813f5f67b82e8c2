/* importance.h - how much the columns of each matrix matter: mean squares of the activations that enter it, each expert
 * by itself. Reads files of `eval importance` and of llama.cpp's imatrix (GGUF, and the older binary form). */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "tensor/quant_fit.h"

#include <stddef.h>
#include <stdint.h>

typedef struct importance importance;

int importance_open(importance **out, const char *path, err *e);
int importance_open_bytes(importance **out, span bytes, const char *name, err *e); /* the bytes are not needed after */
void importance_close(importance *m);                                              /* NULL ok */

/* For the matrix of this name ("blk.3.attn_q.weight") of rows x cols, which is a stack of `parts` matrices (0 or 1:
 * one): a set for each of them if the file has so many, else one for all. Empty: the file has nothing for it, or for
 * another number of columns. Valid until close. */
fit_importance importance_find(const importance *m, const char *name, int64_t rows, int64_t cols, int64_t parts);

/* A matrix's sums, or those of a stack of `parts` (at least 1) of them, over rows of activations, for writing. */
typedef struct importance_sums {
    const char *name;
    const double *square; /* [parts][cols] */
    const int64_t *count; /* [parts] rows */
    int64_t cols, parts;
} importance_sums;
/* As GGUF. */
int importance_write(const char *path, const importance_sums *s, size_t n, err *e);
