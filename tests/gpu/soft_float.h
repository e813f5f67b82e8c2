/* soft_float.h - floats of 16 bits and roundings other than to the nearest.
 *
 * The processor rounds f32 and f64 itself, in any direction; f16 and bf16 are made from a double, which holds any sum
 * and product of two of them exactly, by one rounding of integers. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP } rounding;

static inline float f32_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, 4);
    return v;
}
static inline uint32_t f32_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}
static inline double f64_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, 8);
    return v;
}
static inline uint64_t f64_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return bits;
}
static inline double bf16_value(uint32_t bits) { return f32_of(bits << 16); }
double f16_value(uint32_t bits);

/* v as a float of exponent_bits and mantissa_bits. Infinities stay; what is too large becomes infinite, or the largest
 * number when the rounding leads there. A NaN becomes 0x7fff. */
uint32_t f16_bits(double v, rounding how);
uint32_t bf16_bits(double v, rounding how);

/* One operation rounded to f32 or f64 in any direction. */
float f32_add(float a, float b, rounding how);
float f32_mul(float a, float b, rounding how);
float f32_fma(float a, float b, float c, rounding how);
float f32_div(float a, float b, rounding how);
float f32_sqrt(float a, rounding how);
float f32_from_f64(double v, rounding how);
float f32_from_s64(int64_t v, rounding how);
float f32_from_u64(uint64_t v, rounding how);
double f64_add(double a, double b, rounding how);
double f64_mul(double a, double b, rounding how);
double f64_fma(double a, double b, double c, rounding how);
double f64_div(double a, double b, rounding how);
double f64_from_s64(int64_t v, rounding how);
double f64_from_u64(uint64_t v, rounding how);
/* v rounded to a whole number. */
double f64_whole(double v, rounding how);
