/* fmath.h - exp, tanh, erf in float and sin, cos in double: own polynomials, so that results do not depend on the C
 * library.
 *
 * They are definitions: vector code performs the same operations lane by lane and equals them in every bit (part (c)
 * of the arithmetic contract). Every fused multiply-add is written; build with -ffp-contract=off. Coefficients are
 * minimax (Remez) over the reduced ranges. Maximal error, as tests/t_base_fmath.c finds it over dense ranges against
 * double libm: exp 1.0 ulp, tanh 1.4 ulp, erf 1.2 ulp, sigmoid 2.4 ulp, softplus 2.5 ulp of float (denormal results:
 * of the smallest normal); sin and cos 1.8e-16 absolute for |x| <= 2^30. */
#pragma once
#include "base/half.h"

#include <math.h>
#include <stdint.h>

/* Constants shared with the vector versions (cpu/vmath.h). */
#define FM_LOG2E     0x1.715476p+0f
#define FM_LN2_HI    0x1.62e4p-1f /* 15 bits: n * LN2_HI is exact */
#define FM_LN2_LO    0x1.7f7d1cp-20f
#define FM_ROUND     0x1.8p+23f /* adding it rounds to an integer, which then stands in the low bits */
#define FM_EXP_MIN   (-105.0f)
#define FM_EXP_MAX   90.0f
#define FM_BELOW_MIN (-86.0f) /* from here to 0, 2^n and results are normal */
#define FM_EXP_2     0x1.fffffcp-2f
#define FM_EXP_3     0x1.55549p-3f
#define FM_EXP_4     0x1.5558f8p-5f
#define FM_EXP_5     0x1.123b02p-7f
#define FM_EXP_6     0x1.6a2254p-10f

#define FM_TANH_SMALL 0.625f
#define FM_TANH_1     -0x1.555554p-2f
#define FM_TANH_2     0x1.111066p-3f
#define FM_TANH_3     -0x1.b9ee9p-5f
#define FM_TANH_4     0x1.638b58p-6f
#define FM_TANH_5     -0x1.0bf4fep-7f
#define FM_TANH_6     0x1.18e1ep-9f

#define FM_ERF_SMALL 1.0f
#define FM_ERF_0     0x1.06eba6p-3f /* 2/sqrt(pi) - 1 */
#define FM_ERF_1     -0x1.81273ep-2f
#define FM_ERF_2     0x1.ce2cf8p-4f
#define FM_ERF_3     -0x1.b7f90ep-6f
#define FM_ERF_4     0x1.5405b2p-8f
#define FM_ERF_5     -0x1.a3f7p-11f
#define FM_ERF_6     0x1.496a3p-14f
#define FM_ERF_MAX   3.95f /* erf is 1 in float from here */
#define FM_ERFC_0    -0x1.8b3f32p-13f
#define FM_ERFC_1    0x1.212c2cp+0f
#define FM_ERFC_2    0x1.4434fp-1f
#define FM_ERFC_3    0x1.bc18dp-4f
#define FM_ERFC_4    -0x1.9d0bd6p-6f
#define FM_ERFC_5    0x1.1398fcp-8f
#define FM_ERFC_6    -0x1.ceeafp-12f
#define FM_ERFC_7    0x1.6c0694p-16f

/* atanh(z) / z = 1 + z^2 (L0 + …) for z up to 1/3 */
#define FM_LOG_0 0x1.55554cp-2f
#define FM_LOG_1 0x1.99ad6cp-3f
#define FM_LOG_2 0x1.2124acp-3f
#define FM_LOG_3 0x1.12f598p-3f

/* Maximum and minimum as on x86: the second operand when either is NaN. */
static inline float fm_max(float a, float b) { return a > b ? a : b; }
static inline float fm_min(float a, float b) { return a < b ? a : b; }

/* e^x = 2^n * e^r with n the integer nearest to x / ln 2. */
static inline float fm_exp(float x)
{
    x = fm_min(FM_EXP_MAX, fm_max(FM_EXP_MIN, x)); /* NaN passes */
    float t = fmaf(x, FM_LOG2E, FM_ROUND), n = t - FM_ROUND;
    float r = fmaf(n, -FM_LN2_LO, fmaf(n, -FM_LN2_HI, x));
    float p = fmaf(fmaf(fmaf(fmaf(FM_EXP_6, r, FM_EXP_5), r, FM_EXP_4), r, FM_EXP_3), r, FM_EXP_2);
    p = fmaf(r * r, p, r) + 1.0f;
    int32_t i = (int32_t)(float_bits(t) - float_bits(FM_ROUND));
    int32_t h = i >> 1; /* two factors: 2^n alone would leave the range of normal floats */
    p = p * bits_float((uint32_t)(h + 127) << 23);
    return p * bits_float((uint32_t)(i - h + 127) << 23);
}

static inline float fm_tanh(float x)
{
    float a = fabsf(x), u = x * x;
    if (a < FM_TANH_SMALL) {
        float p = fmaf(fmaf(fmaf(FM_TANH_6, u, FM_TANH_5), u, FM_TANH_4), u, FM_TANH_3);
        p = fmaf(fmaf(p, u, FM_TANH_2), u, FM_TANH_1);
        return copysignf(fmaf(x * u, p, x), x); /* the sign of zero */
    }
    return copysignf(1.0f - 2.0f / (fm_exp(a + a) + 1.0f), x);
}

static inline float fm_erf(float x)
{
    float a = fabsf(x), u = x * x;
    if (a < FM_ERF_SMALL) {
        float p = fmaf(fmaf(fmaf(FM_ERF_6, u, FM_ERF_5), u, FM_ERF_4), u, FM_ERF_3);
        p = fmaf(fmaf(fmaf(p, u, FM_ERF_2), u, FM_ERF_1), u, FM_ERF_0);
        return fmaf(x, p, x);
    }
    a = fm_min(FM_ERF_MAX, a);
    float q = fmaf(fmaf(fmaf(FM_ERFC_7, a, FM_ERFC_6), a, FM_ERFC_5), a, FM_ERFC_4);
    q = fmaf(fmaf(fmaf(fmaf(q, a, FM_ERFC_3), a, FM_ERFC_2), a, FM_ERFC_1), a, FM_ERFC_0);
    return copysignf(1.0f - fm_exp(-q), x);
}

static inline float fm_sigmoid(float x) { return 1.0f / (1.0f + fm_exp(-x)); }

/* log(1 + e^x): log(1 + u) = 2 atanh(u / (2 + u)), u = e^-|x|. */
static inline float fm_softplus(float x)
{
    float u = fm_exp(-fabsf(x)), z = u / (2.0f + u), w = z * z;
    float p = fmaf(fmaf(fmaf(FM_LOG_3, w, FM_LOG_2), w, FM_LOG_1), w, FM_LOG_0);
    float l = fmaf(z * w, p, z);
    return fm_max(x, 0) + (l + l);
}

/* sin and cos of |x| <= 2^30: reduced by pi/2 in two parts, then a polynomial on [-pi/4, pi/4]. Used at load, to
 * build tables of positions. */
static inline void fm_sincos(double x, double *sine, double *cosine)
{
    double n = fma(x, 0x1.45f306dc9c883p-1, 0x1.8p52) - 0x1.8p52;
    double r = fma(n, -0x1.921fb54442d18p0, x);
    r = fma(n, -0x1.1a62633145c07p-54, r); /* pi/2 = hi + lo; each product is exact inside its fma */
    double u = r * r;
    double s = fma(fma(fma(0x1.5d9300fbd6362p-33, u, -0x1.ae5e663a8da5dp-26), u, 0x1.71de3577b6953p-19), u,
                   -0x1.a01a019c11995p-13);
    s = fma(fma(s, u, 0x1.111111110f87ap-7), u, -0x1.5555555555549p-3);
    s = fma(r * u, s, r);
    double c = fma(fma(fma(-0x1.8fae9c69b38f2p-37, u, 0x1.1ee9ebe913ef4p-29), u, -0x1.27e4f809f07b0p-22), u,
                   0x1.a01a019cb1bd8p-16);
    c = fma(fma(c, u, -0x1.6c16c16c1517ep-10), u, 0x1.555555555554cp-5);
    c = fma(u * u, c, fma(u, -0.5, 1.0));
    int64_t quarter = (int64_t)n & 3;
    double a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -a : a;
    *cosine = quarter == 1 || quarter == 2 ? -b : b;
}
