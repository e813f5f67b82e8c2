/* ops_float.c - arithmetic of f32 and f64. Without a rounding .rn is meant, and nothing is fused. Approximations
 * (rcp.approx, ex2.approx ...) and flushing of denormal numbers are not here: their bits are the card's alone. */
#include "tests/gpu/ops.h"
#include "tests/gpu/soft_float.h"

#include <math.h>

/* A fused multiply-add is one instruction where the processor has it. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define WITH_FMA __attribute__((target_clones("arch=haswell", "default")))
#else
#define WITH_FMA
#endif

LANES_2(add_f32, float, float, float, a + b)
LANES_2(sub_f32, float, float, float, a - b)
LANES_2(mul_f32, float, float, float, a *b)
LANES_2(div_f32, float, float, float, a / b)
LANES_1(sqrt_f32, float, float, float, __builtin_sqrtf(a))
LANES_1(rcp_f32, float, float, float, 1 / a)
LANES_2(add_f64, double, double, double, a + b)
LANES_2(sub_f64, double, double, double, a - b)
LANES_2(mul_f64, double, double, double, a *b)
LANES_2(div_f64, double, double, double, a / b)
LANES_1(sqrt_f64, double, double, double, __builtin_sqrt(a))
LANES_1(rcp_f64, double, double, double, 1 / a)

WITH_FMA static void fma_f32(warp *w, const inst *in, uint32_t mask)
{
    float *d = (float *)row_set(w, in->o[0]);
    const float *a = (const float *)row(w, in->o[1]), *b = (const float *)row(w, in->o[2]);
    const float *c = (const float *)row(w, in->o[3]);
    EACH_LANE(mask, d[l] = __builtin_fmaf(a[l], b[l], c[l]););
}
WITH_FMA static void fma_f64(warp *w, const inst *in, uint32_t mask)
{
    double *d = (double *)row_set(w, in->o[0]);
    const double *a = (const double *)row(w, in->o[1]), *b = (const double *)row(w, in->o[2]);
    const double *c = (const double *)row(w, in->o[3]);
    EACH_LANE(mask, d[l] = __builtin_fma(a[l], b[l], c[l]););
}

#define DIRECTED(m, how)                                                                                               \
    LANES_2(add_##m##_f32, float, float, float, f32_add(a, b, how))                                                    \
    LANES_2(sub_##m##_f32, float, float, float, f32_add(a, -b, how))                                                   \
    LANES_2(mul_##m##_f32, float, float, float, f32_mul(a, b, how))                                                    \
    LANES_2(div_##m##_f32, float, float, float, f32_div(a, b, how))                                                    \
    LANES_3(fma_##m##_f32, float, float, float, f32_fma(a, b, c, how))                                                 \
    LANES_1(sqrt_##m##_f32, float, float, float, f32_sqrt(a, how))                                                     \
    LANES_1(rcp_##m##_f32, float, float, float, f32_div(1, a, how))                                                    \
    LANES_2(add_##m##_f64, double, double, double, f64_add(a, b, how))                                                 \
    LANES_2(sub_##m##_f64, double, double, double, f64_add(a, -b, how))                                                \
    LANES_2(mul_##m##_f64, double, double, double, f64_mul(a, b, how))                                                 \
    LANES_2(div_##m##_f64, double, double, double, f64_div(a, b, how))                                                 \
    LANES_3(fma_##m##_f64, double, double, double, f64_fma(a, b, c, how))
DIRECTED(rz, ROUND_ZERO)
DIRECTED(rm, ROUND_DOWN)
DIRECTED(rp, ROUND_UP)

/* Of a NaN and a number min and max take the number, with .NaN the NaN; -0 is less than 0. */
#define LESSER(T, bits, of, nan)                                                                                       \
    static T least_##T(T a, T b, bool with_nan)                                                                        \
    {                                                                                                                  \
        if (isnan(a) || isnan(b)) return with_nan || (isnan(a) && isnan(b)) ? nan : isnan(a) ? b : a;                  \
        return a == b ? of(bits(a) | bits(b)) : a < b ? a : b;                                                         \
    }                                                                                                                  \
    static T greatest_##T(T a, T b, bool with_nan)                                                                     \
    {                                                                                                                  \
        if (isnan(a) || isnan(b)) return with_nan || (isnan(a) && isnan(b)) ? nan : isnan(a) ? b : a;                  \
        return a == b ? of(bits(a) & bits(b)) : a > b ? a : b;                                                         \
    }
LESSER(float, f32_bits, f32_of, NAN)
LESSER(double, f64_bits, f64_of, NAN)
LANES_2(min_f32, float, float, float, least_float(a, b, false))
LANES_2(max_f32, float, float, float, greatest_float(a, b, false))
LANES_2(min_nan_f32, float, float, float, least_float(a, b, true))
LANES_2(max_nan_f32, float, float, float, greatest_float(a, b, true))
LANES_2(min_f64, double, double, double, least_double(a, b, false))
LANES_2(max_f64, double, double, double, greatest_double(a, b, false))

LANES_1(abs_f32, uint32_t, uint32_t, uint32_t, a & 0x7fffffff)
LANES_1(neg_f32, uint32_t, uint32_t, uint32_t, a ^ 0x80000000)
LANES_1(abs_f64, uint64_t, uint64_t, uint64_t, a &INT64_MAX)
LANES_1(neg_f64, uint64_t, uint64_t, uint64_t, a ^ UINT64_C(1) << 63)
LANES_2(copysign_f32, uint32_t, uint32_t, uint32_t, (a & 0x80000000) | (b & 0x7fffffff))
LANES_2(copysign_f64, uint64_t, uint64_t, uint64_t, (a & UINT64_C(1) << 63) | (b & INT64_MAX))

static float clamp01(float v) { return v > 0 ? v < 1 ? v : 1 : 0; }
LANES_2(add_sat_f32, float, float, float, clamp01(a + b))
LANES_2(sub_sat_f32, float, float, float, clamp01(a - b))
LANES_2(mul_sat_f32, float, float, float, clamp01(a *b))
LANES_3(fma_sat_f32, float, float, float, clamp01(fmaf(a, b, c)))

/* Which class a float is of. */
static void set_mask(warp *w, const inst *in, uint32_t mask, uint32_t bits)
{
    uint32_t *d = row_set(w, in->o[0]);
    *d = (*d & ~mask) | (bits & mask);
}
#define TESTP(name, ...)                                                                                               \
    static void testp_##name(warp *w, const inst *in, uint32_t mask)                                                   \
    {                                                                                                                  \
        const float *p = (const float *)row(w, in->o[1]);                                                              \
        uint32_t bits = 0;                                                                                             \
        for (int l = 0; l < LANES; l++) {                                                                              \
            const float v = p[l];                                                                                      \
            bits |= (uint32_t)((__VA_ARGS__) != 0) << l;                                                               \
        }                                                                                                              \
        set_mask(w, in, mask, bits);                                                                                   \
    }
TESTP(finite, isfinite(v))
TESTP(infinite, isinf(v))
TESTP(number, !isnan(v))
TESTP(nan, isnan(v))
TESTP(normal, isfinite(v) && fpclassify(v) != FP_SUBNORMAL)
TESTP(subnormal, fpclassify(v) == FP_SUBNORMAL)

#define ROWS_DIRECTED(m)                                                                                               \
    {"add." #m ".f32", add_##m##_f32, "f:ff"}, {"sub." #m ".f32", sub_##m##_f32, "f:ff"},                              \
        {"mul." #m ".f32", mul_##m##_f32, "f:ff"}, {"div." #m ".f32", div_##m##_f32, "f:ff"},                          \
        {"fma." #m ".f32", fma_##m##_f32, "f:fff"}, {"sqrt." #m ".f32", sqrt_##m##_f32, "f:f"},                        \
        {"rcp." #m ".f32", rcp_##m##_f32, "f:f"}, {"add." #m ".f64", add_##m##_f64, "g:gg"},                           \
        {"sub." #m ".f64", sub_##m##_f64, "g:gg"}, {"mul." #m ".f64", mul_##m##_f64, "g:gg"},                          \
        {"div." #m ".f64", div_##m##_f64, "g:gg"},                                                                     \
    {                                                                                                                  \
        "fma." #m ".f64", fma_##m##_f64, "g:ggg"                                                                       \
    }

const op_row ops_float[] = {
    {"add.f32", add_f32, "f:ff"},
    {"sub.f32", sub_f32, "f:ff"},
    {"mul.f32", mul_f32, "f:ff"},
    {"add.f64", add_f64, "g:gg"},
    {"sub.f64", sub_f64, "g:gg"},
    {"mul.f64", mul_f64, "g:gg"},
    {"add.rn.f32", add_f32, "f:ff"},
    {"sub.rn.f32", sub_f32, "f:ff"},
    {"mul.rn.f32", mul_f32, "f:ff"},
    {"div.rn.f32", div_f32, "f:ff"},
    {"fma.rn.f32", fma_f32, "f:fff"},
    {"sqrt.rn.f32", sqrt_f32, "f:f"},
    {"rcp.rn.f32", rcp_f32, "f:f"},
    {"add.rn.f64", add_f64, "g:gg"},
    {"sub.rn.f64", sub_f64, "g:gg"},
    {"mul.rn.f64", mul_f64, "g:gg"},
    {"div.rn.f64", div_f64, "g:gg"},
    {"fma.rn.f64", fma_f64, "g:ggg"},
    {"sqrt.rn.f64", sqrt_f64, "g:g"},
    {"rcp.rn.f64", rcp_f64, "g:g"},
    ROWS_DIRECTED(rz),
    ROWS_DIRECTED(rm),
    ROWS_DIRECTED(rp),
    {"add.sat.f32", add_sat_f32, "f:ff"},
    {"add.rn.sat.f32", add_sat_f32, "f:ff"},
    {"sub.sat.f32", sub_sat_f32, "f:ff"},
    {"sub.rn.sat.f32", sub_sat_f32, "f:ff"},
    {"mul.sat.f32", mul_sat_f32, "f:ff"},
    {"mul.rn.sat.f32", mul_sat_f32, "f:ff"},
    {"fma.rn.sat.f32", fma_sat_f32, "f:fff"},
    {"min.f32", min_f32, "f:ff"},
    {"max.f32", max_f32, "f:ff"},
    {"min.NaN.f32", min_nan_f32, "f:ff"},
    {"max.NaN.f32", max_nan_f32, "f:ff"},
    {"min.f64", min_f64, "g:gg"},
    {"max.f64", max_f64, "g:gg"},
    {"abs.f32", abs_f32, "f:f"},
    {"neg.f32", neg_f32, "f:f"},
    {"abs.f64", abs_f64, "g:g"},
    {"neg.f64", neg_f64, "g:g"},
    {"copysign.f32", copysign_f32, "f:ff"},
    {"copysign.f64", copysign_f64, "g:gg"},
    {"testp.finite.f32", testp_finite, "p:f"},
    {"testp.infinite.f32", testp_infinite, "p:f"},
    {"testp.number.f32", testp_number, "p:f"},
    {"testp.notanumber.f32", testp_nan, "p:f"},
    {"testp.normal.f32", testp_normal, "p:f"},
    {"testp.subnormal.f32", testp_subnormal, "p:f"},
    {0},
};
