/* quant_range.h - whether a type can hold a row of weights at all, before it is encoded. */
#pragma once
#include "base/err.h"
#include "tensor/dtype.h"

#include <stdint.h>

/* NOT_FINITE: infinities or NaN, which only float types hold. TOO_LARGE: beyond the largest scale (f16: beyond the
 * type). */
typedef enum quant_range { RANGE_HELD, RANGE_NOT_FINITE, RANGE_TOO_LARGE } quant_range;

/* Of n weights that quant_fit would encode; t: a type for which quant_can_encode is true. Reads the row once if it
 * fits. */
quant_range quant_range_of(dtype t, const float *row, uint64_t n);

/* The same as an error, ERR_SPEC, for row `at` of a matrix; OK: it is held. */
int quant_range_error(dtype t, const char *name, int64_t at, const float *row, uint64_t n, err *e);
