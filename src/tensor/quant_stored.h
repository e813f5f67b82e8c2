/* quant_stored.h - blocks whose weights are (code - zero) * scale: their parts, for packing and for readers of
 * stored matrices. */
#pragma once
#include "tensor/dtype.h"

#include <stdint.h>

/* Bits of a code; 0: not such a type. */
int zero_bits(dtype t);
/* Codes (one byte each, at most 128), scale (f16) and zero of a block. */
void zero_get(dtype t, const uint8_t *block, uint8_t *q, uint16_t *scale, int16_t *zero);
void zero_put(dtype t, uint8_t *block, const uint8_t *q, uint16_t scale, int16_t zero);
