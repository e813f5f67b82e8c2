/* quant_linear.h - blocks whose weights are code * scale + base (quant_linear.c): codes and scales of one block, for packing and for
 * encoders that choose them well. */
#ifndef TENSOR_QUANT_LINEAR_H
#define TENSOR_QUANT_LINEAR_H
#include "tensor/dtype.h"

#include <stdint.h>

/* The greatest code; 0: not such a type. */
int linear_top(dtype t);
/* Codes (one byte each, at most 64), scale and base (f16) of a block. */
void linear_get(dtype t, const uint8_t *block, uint8_t *q, uint16_t *scale, uint16_t *base);
void linear_put(dtype t, uint8_t *block, const uint8_t *q, uint16_t scale, uint16_t base);
/* The code nearest to x, ties to even; anything that is no number, and scale 0, gives a code all the same. */
uint8_t linear_code(float x, float scale, float base, int top);

#endif
