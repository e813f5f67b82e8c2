/* e4m3.h - FP8 E4M3 (Micikevicius et al. 2022) as integers: every number of it is a whole multiple of 2^-10. */
#pragma once
#include "base/gpu.h"

#include <stdint.h>

#define E4M3_UNIT 0x1p-10f

/* The number of a byte in units of 2^-10, at most 480 * 1024 in size: 4 bits, shifted. NaN counts as 480: sums of 32
 * products with codes of 8 bits fit in 32 bits. */
static inline int32_t e4m3_level(uint8_t b)
{
    const int exponent = b >> 3 & 15, mantissa = b & 7;
    const int32_t v = exponent ? (8 + mantissa) << exponent : mantissa << 1;
    return b & 0x80 ? -v : v;
}
