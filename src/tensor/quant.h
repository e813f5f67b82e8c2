/* quant.h - reference decoders: the definition of every element type, slow and obvious. */
#pragma once
#include "base/gpu.h"
#include "tensor/dtype.h"

#include <stdint.h>

/* Decodes n elements (a whole number of blocks) starting at `from` (no alignment assumed) into float32. Integers
 * convert by value, f64 by rounding. */
void quant_decode(dtype t, const void *from, float *to, uint64_t n);

/* A row of n elements, any number of them: the last block may hold more. */
GPU_CODE void quant_decode_row(dtype t, const void *from, float *to, uint64_t n);

/* Encodes n float32 values (a whole number of blocks). Only types for which quant_can_encode is true. */
bool quant_can_encode(dtype t);
void quant_encode(dtype t, const float *from, void *to, uint64_t n);
