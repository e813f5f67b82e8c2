/* quant_stored.h - blocks whose weights are (code - zero) * scale: their parts, for readers of stored matrices. */
#pragma once
#include "tensor/dtype.h"

#include <stdint.h>

/* Codes (one byte each, at most 128), scale (f16) and zero of a block. */
void zero_put(dtype t, uint8_t *block, const uint8_t *q, uint16_t scale, int16_t zero);
