/* quant_fit.h - rows of floats to blocks with as little error as the format allows: what every conversion of weights goes through. */
#ifndef TENSOR_QUANT_FIT_H
#define TENSOR_QUANT_FIT_H
#include "tensor/dtype.h"

#include <stdint.h>

/* Encodes a row of n weights, any number of them, as dtype_row_bytes(t, n) bytes; what fills up its last block does not widen that
 * block's range. importance: NULL, or n numbers >= 0, how much the square of each weight's error counts. Only types for which
 * quant_can_encode is true. The same input gives the same bytes. */
void quant_fit(dtype t, const float *row, uint64_t n, const float *importance, void *out);

#endif
