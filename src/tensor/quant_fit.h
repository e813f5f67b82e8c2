/* quant_fit.h - encoders that minimize the error, where quant_encode covers the range; `quantize` uses them. */
#pragma once
#include "tensor/dtype.h"

#include <stdint.h>

/* Encodes a row of any number n of weights as dtype_row_bytes(t, n) bytes, with a small sum of importance * (weight -
 * decoded)^2; padding does not widen the range of the last block. importance: NULL, or n numbers >= 0 of which only the
 * ratios count. Only types for which quant_can_encode is true; those without a better way are encoded plainly, and
 * linear ones are never worse than that. The same input gives the same bytes on every machine. NaN counts as 0. */
void quant_fit(dtype t, const float *row, uint64_t n, const float *importance, void *out);
/* Whether it has an encoder of its own for t. */
bool quant_fit_has(dtype t);

/* Importance of the columns of a matrix: the same for all rows, or for each run of rows (the matrix of an expert) its
 * own. */
typedef struct fit_importance {
    const float *value; /* [sets][cols]; NULL: there is none */
    int64_t rows;       /* of a run; 0: one set for all */
} fit_importance;
static inline const float *fit_importance_of(fit_importance m, int64_t row, int64_t cols)
{
    return m.value && m.rows ? m.value + row / m.rows * cols : m.value;
}
