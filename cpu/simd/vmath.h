/* vmath.h - exp, tanh, erf of base/fmath.h on sixteen lanes: the same operations in the same order, so the same
 * bits. */
#pragma once
#include "base/fmath.h"
#include "cpu/simd/v16.h"

INLINE v16 v16_step(v16 p, v16 x, float c) { return v16_fma(p, x, v16_all(c)); } /* one step of Horner's rule */

INLINE v16 v16_exp(v16 x)
{
    x = v16_min(v16_all(FM_EXP_MAX), v16_max(v16_all(FM_EXP_MIN), x));
    v16 round = v16_all(FM_ROUND), t = v16_fma(x, v16_all(FM_LOG2E), round), n = v16_sub(t, round);
    v16 r = v16_fma(n, v16_all(-FM_LN2_LO), v16_fma(n, v16_all(-FM_LN2_HI), x));
    v16 p = v16_step(v16_step(v16_all(FM_EXP_6), r, FM_EXP_5), r, FM_EXP_4);
    p = v16_step(v16_step(p, r, FM_EXP_3), r, FM_EXP_2);
    p = v16_add(v16_fma(v16_mul(r, r), p, r), v16_all(1));
    return v16_scale_2n(p, t, round);
}

/* v16_exp of x <= 0, as if x were at least FM_BELOW_MIN. */
INLINE v16 v16_exp_below(v16 x)
{
    x = v16_max(v16_all(FM_BELOW_MIN), x);
    v16 round = v16_all(FM_ROUND), t = v16_fma(x, v16_all(FM_LOG2E), round), n = v16_sub(t, round);
    v16 r = v16_fma(n, v16_all(-FM_LN2_LO), v16_fma(n, v16_all(-FM_LN2_HI), x));
    v16 p = v16_step(v16_step(v16_all(FM_EXP_6), r, FM_EXP_5), r, FM_EXP_4);
    p = v16_step(v16_step(p, r, FM_EXP_3), r, FM_EXP_2);
    return v16_times_2n(v16_add(v16_fma(v16_mul(r, r), p, r), v16_all(1)), t);
}

INLINE v16 v16_tanh(v16 x)
{
    v16 a = v16_abs(x), u = v16_mul(x, x);
    v16 p = v16_step(v16_step(v16_all(FM_TANH_6), u, FM_TANH_5), u, FM_TANH_4);
    p = v16_step(v16_step(v16_step(p, u, FM_TANH_3), u, FM_TANH_2), u, FM_TANH_1);
    v16 small = v16_fma(v16_mul(x, u), p, x);
    v16 e = v16_add(v16_exp(v16_add(a, a)), v16_all(1));
    v16 large = v16_sub(v16_all(1), v16_div(v16_all(2), e));
    return v16_sign_of(v16_pick(v16_less(a, v16_all(FM_TANH_SMALL)), small, large), x);
}

INLINE v16 v16_erf(v16 x)
{
    v16 a = v16_abs(x), u = v16_mul(x, x);
    v16 p = v16_step(v16_step(v16_all(FM_ERF_6), u, FM_ERF_5), u, FM_ERF_4);
    p = v16_step(v16_step(v16_step(v16_step(p, u, FM_ERF_3), u, FM_ERF_2), u, FM_ERF_1), u, FM_ERF_0);
    v16 small = v16_fma(x, p, x), b = v16_min(v16_all(FM_ERF_MAX), a);
    v16 q = v16_step(v16_step(v16_all(FM_ERFC_7), b, FM_ERFC_6), b, FM_ERFC_5);
    q = v16_step(v16_step(v16_step(q, b, FM_ERFC_4), b, FM_ERFC_3), b, FM_ERFC_2);
    q = v16_step(v16_step(q, b, FM_ERFC_1), b, FM_ERFC_0);
    v16 large = v16_sub(v16_all(1), v16_exp(v16_neg(q)));
    return v16_pick(v16_less(a, v16_all(FM_ERF_SMALL)), small, v16_sign_of(large, x));
}

INLINE v16 v16_softplus(v16 x)
{
    v16 u = v16_exp(v16_neg(v16_abs(x))), z = v16_div(u, v16_add(v16_all(2), u)), w = v16_mul(z, z);
    v16 p = v16_step(v16_step(v16_step(v16_all(FM_LOG_3), w, FM_LOG_2), w, FM_LOG_1), w, FM_LOG_0);
    v16 l = v16_fma(v16_mul(z, w), p, z);
    return v16_add(v16_max(x, v16_zero()), v16_add(l, l));
}
