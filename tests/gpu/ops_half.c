/* ops_half.c - arithmetic of f16 and bf16, alone and in pairs: exact in a double, with what it loses as a last odd bit,
 * then rounded once. */
#include "tests/gpu/ops.h"
#include "tests/gpu/soft_float.h"

#include <math.h>

/* a + b whose last bit is odd where the sum is not exact, so that a second rounding goes the right way. */
static double sum_odd(double a, double b)
{
    const double sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
    if (!isfinite(sum) || lost == 0) return sum;
    const uint64_t bits = f64_bits(sum);
    if (bits & 1) return sum;
    return f64_of((lost > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

#define OF_HALF(t, value, bits)                                                                                        \
    static uint32_t add_##t(uint32_t a, uint32_t b) { return bits(sum_odd(value(a), value(b)), ROUND_NEAREST); }       \
    static uint32_t sub_##t(uint32_t a, uint32_t b) { return bits(sum_odd(value(a), -value(b)), ROUND_NEAREST); }      \
    static uint32_t mul_##t(uint32_t a, uint32_t b) { return bits(value(a) * value(b), ROUND_NEAREST); }               \
    static uint32_t fma_##t(uint32_t a, uint32_t b, uint32_t c)                                                        \
    {                                                                                                                  \
        return bits(sum_odd(value(a) * value(b), value(c)), ROUND_NEAREST);                                            \
    }                                                                                                                  \
    static uint32_t neg_##t(uint32_t a) { return a ^ 0x8000; }                                                         \
    static uint32_t abs_##t(uint32_t a) { return a & 0x7fff; }                                                         \
    static uint32_t least_##t(uint32_t a, uint32_t b, bool greatest, bool with_nan)                                    \
    {                                                                                                                  \
        const double x = value(a), y = value(b);                                                                       \
        if (isnan(x) || isnan(y)) return with_nan || (isnan(x) && isnan(y)) ? 0x7fff : isnan(x) ? b : a;               \
        if (x == y) return greatest ? a & b : a | b;                                                                   \
        return (x < y) != greatest ? a : b;                                                                            \
    }                                                                                                                  \
    static uint32_t min_##t(uint32_t a, uint32_t b) { return least_##t(a, b, false, false); }                          \
    static uint32_t max_##t(uint32_t a, uint32_t b) { return least_##t(a, b, true, false); }                           \
    static uint32_t min_nan_##t(uint32_t a, uint32_t b) { return least_##t(a, b, false, true); }                       \
    static uint32_t max_nan_##t(uint32_t a, uint32_t b) { return least_##t(a, b, true, true); }
OF_HALF(f16, f16_value, f16_bits)
OF_HALF(bf16, bf16_value, bf16_bits)

#define ALONE_1(f, t) LANES_1(one_##f##_##t, uint32_t, uint32_t, uint16_t, f##_##t(a))
#define ALONE_2(f, t) LANES_2(one_##f##_##t, uint32_t, uint32_t, uint16_t, f##_##t(a, b))
#define ALONE_3(f, t) LANES_3(one_##f##_##t, uint32_t, uint32_t, uint16_t, f##_##t(a, b, c))
#define PAIR_1(f, t)  LANES_1(two_##f##_##t, uint32_t, uint32_t, uint32_t, f##_##t(a & 0xffff) | f##_##t(a >> 16) << 16)
#define PAIR_2(f, t)                                                                                                   \
    LANES_2(two_##f##_##t, uint32_t, uint32_t, uint32_t,                                                               \
            f##_##t(a & 0xffff, b & 0xffff) | f##_##t(a >> 16, b >> 16) << 16)
#define PAIR_3(f, t)                                                                                                   \
    LANES_3(two_##f##_##t, uint32_t, uint32_t, uint32_t,                                                               \
            f##_##t(a & 0xffff, b & 0xffff, c & 0xffff) | f##_##t(a >> 16, b >> 16, c >> 16) << 16)
#define BOTH(n, f, t) ALONE_##n(f, t) PAIR_##n(f, t)
#define ALL_OF(t)                                                                                                      \
    BOTH(2, add, t)                                                                                                    \
    BOTH(2, sub, t)                                                                                                    \
    BOTH(2, mul, t)                                                                                                    \
    BOTH(3, fma, t)                                                                                                    \
    BOTH(2, min, t)                                                                                                    \
    BOTH(2, max, t)                                                                                                    \
    BOTH(2, min_nan, t)                                                                                                \
    BOTH(2, max_nan, t)                                                                                                \
    BOTH(1, neg, t)                                                                                                    \
    BOTH(1, abs, t)
ALL_OF(f16)
ALL_OF(bf16)

#define ROWS_OF(t, name, kind, l)                                                                                      \
    {"add." #name, kind##_add_##t, #l ":" #l #l}, {"add.rn." #name, kind##_add_##t, #l ":" #l #l},                     \
        {"sub." #name, kind##_sub_##t, #l ":" #l #l}, {"sub.rn." #name, kind##_sub_##t, #l ":" #l #l},                 \
        {"mul." #name, kind##_mul_##t, #l ":" #l #l}, {"mul.rn." #name, kind##_mul_##t, #l ":" #l #l},                 \
        {"fma.rn." #name, kind##_fma_##t, #l ":" #l #l #l}, {"min." #name, kind##_min_##t, #l ":" #l #l},              \
        {"max." #name, kind##_max_##t, #l ":" #l #l}, {"min.NaN." #name, kind##_min_nan_##t, #l ":" #l #l},            \
        {"max.NaN." #name, kind##_max_nan_##t, #l ":" #l #l}, {"neg." #name, kind##_neg_##t, #l ":" #l},               \
    {                                                                                                                  \
        "abs." #name, kind##_abs_##t, #l ":" #l                                                                        \
    }

const op_row ops_half[] = {
    ROWS_OF(f16, f16, one, h),
    ROWS_OF(bf16, bf16, one, h),
    ROWS_OF(f16, f16x2, two, r),
    ROWS_OF(bf16, bf16x2, two, r),
    {0},
};
