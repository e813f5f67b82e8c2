/* half.h - f16 (IEEE binary16) and bf16 as bits, scalar conversions: the definition that vector code must equal.
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even, as hardware does; NaN stays NaN (quiet). */
#pragma once
#include <stdint.h>
#include <string.h>

static inline float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31) return bits_float(sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
    if (e) return bits_float(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f; /* subnormal: exact */
    return sign ? -f : f;
}

static inline uint16_t f32_to_f16(float f)
{
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* >= 65520 rounds to infinity */
    if (a < 0x38800000) { /* below 2^-14: subnormal; adding 0.5 ulp of 2^-24 does the rounding */
        float r = bits_float(a) + 0.5f;
        return (uint16_t)(sign | (float_bits(r) - 0x3f000000));
    }
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | (a - 0x38000000) >> 13);
}

/* As f16 has it; beyond its range infinite. */
static inline float f32_round_f16(float f) { return f16_to_f32(f32_to_f16(f)); }

static inline float bf16_to_f32(uint16_t h) { return bits_float((uint32_t)h << 16); }

static inline uint16_t f32_to_bf16(float f)
{
    uint32_t u = float_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
