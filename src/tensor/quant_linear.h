/* quant_linear.h - blocks whose weights are code * scale + base (quant_linear.c): codes and scales of one block, for
 * packing and for encoders that choose them well. */
#pragma once
#include "tensor/dtype.h"

#include <stdint.h>

/* The largest code; 0: not such a type. */
int linear_top(dtype t);
/* Codes (one byte each, at most 64), scale and base (f16) of a block. */
void linear_get(dtype t, const uint8_t *block, uint8_t *q, uint16_t *scale, uint16_t *base);
void linear_put(dtype t, uint8_t *block, const uint8_t *q, uint16_t scale, uint16_t base);
