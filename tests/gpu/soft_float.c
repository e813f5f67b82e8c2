/* soft_float.c - floats of 16 bits and roundings other than to the nearest. */
#include "tests/gpu/soft_float.h"

#include <fenv.h>
#include <math.h>

double f16_value(uint32_t bits)
{
    const int e = bits >> 10 & 31, m = bits & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(m | 1024, e - 25) : ldexp(m, -24);
    return bits & 0x8000 ? -v : v;
}

/* v as mantissa bits behind an exponent whose least normal value is 2^least. */
static uint32_t narrow(double v, int mantissa, int least, rounding how)
{
    const uint32_t infinite = 0x7fffu >> mantissa << mantissa, sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return 0x7fff;
    if (isinf(v)) return sign | infinite;
    const double size = fabs(v);
    int e = size ? ilogb(size) : least;
    if (e < least) e = least;
    const double unit = ldexp(size, mantissa - e); /* exact: in units of the last bit */
    const bool up = how == (sign ? ROUND_DOWN : ROUND_UP);
    const double whole = how == ROUND_NEAREST ? nearbyint(unit) : up ? ceil(unit) : floor(unit);
    /* A carry out of the mantissa goes into the exponent by itself. */
    uint32_t bits = ((uint32_t)(e - least) << mantissa) + (uint32_t)whole;
    if (bits >= infinite) bits = how == ROUND_NEAREST || up ? infinite : infinite - 1;
    return sign | bits;
}

uint32_t f16_bits(double v, rounding how) { return narrow(v, 10, -14, how); }
uint32_t bf16_bits(double v, rounding how) { return narrow(v, 7, -126, how); }

/* The processor's mode around one operation; volatile keeps it there. */
#define ROUNDED(T, ...)                                                                                                \
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};                                  \
    fesetround(modes[how]);                                                                                            \
    volatile T result = (__VA_ARGS__);                                                                                 \
    fesetround(FE_TONEAREST);                                                                                          \
    return result

#define ROUNDED_2(name, T, ...)                                                                                        \
    T name(T a, T b, rounding how)                                                                                     \
    {                                                                                                                  \
        volatile T x = a, y = b;                                                                                       \
        ROUNDED(T, __VA_ARGS__);                                                                                       \
    }
ROUNDED_2(f32_add, float, x + y)
ROUNDED_2(f32_mul, float, x *y)
ROUNDED_2(f32_div, float, x / y)
ROUNDED_2(f64_add, double, x + y)
ROUNDED_2(f64_mul, double, x *y)
ROUNDED_2(f64_div, double, x / y)

float f32_fma(float a, float b, float c, rounding how)
{
    volatile float x = a, y = b, z = c;
    ROUNDED(float, fmaf(x, y, z));
}
double f64_fma(double a, double b, double c, rounding how)
{
    volatile double x = a, y = b, z = c;
    ROUNDED(double, fma(x, y, z));
}
float f32_sqrt(float a, rounding how)
{
    volatile float x = a;
    ROUNDED(float, sqrtf(x));
}
float f32_from_f64(double v, rounding how)
{
    volatile double x = v;
    ROUNDED(float, (float)x);
}
float f32_from_s64(int64_t v, rounding how)
{
    volatile int64_t x = v;
    ROUNDED(float, (float)x);
}
float f32_from_u64(uint64_t v, rounding how)
{
    /* Halved with a sticky bit: a signed number, which the processor converts in one rounding. */
    if (v >> 63) return 2 * f32_from_s64((int64_t)(v >> 1 | (v & 1)), how);
    return f32_from_s64((int64_t)v, how);
}
double f64_from_s64(int64_t v, rounding how)
{
    volatile int64_t x = v;
    ROUNDED(double, (double)x);
}
double f64_from_u64(uint64_t v, rounding how)
{
    if (v >> 63) return 2 * f64_from_s64((int64_t)(v >> 1 | (v & 1)), how);
    return f64_from_s64((int64_t)v, how);
}

double f64_whole(double v, rounding how)
{
    return how == ROUND_NEAREST ? nearbyint(v) : how == ROUND_ZERO ? trunc(v) : how == ROUND_DOWN ? floor(v) : ceil(v);
}
