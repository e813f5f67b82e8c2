/* v16_neon.h - sixteen lanes (v16.h) as four registers of NEON, of any 64-bit Arm processor (Arm Architecture
 * Reference Manual, chapter C7). */
#pragma once
#include "base/half.h"

#include <arm_neon.h>

typedef struct v16 {
    float32x4_t a, b, c, d;
} v16;
typedef struct m16 { /* all ones where true */
    uint32x4_t a, b, c, d;
} m16;
#define V16(...)          ((v16){__VA_ARGS__})
#define V16_EACH(f, x)    V16(f((x).a), f((x).b), f((x).c), f((x).d))
#define V16_BOTH(f, x, y) V16(f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d))
INLINE v16 v16_all(float f)
{
    float32x4_t v = vdupq_n_f32(f);
    return V16(v, v, v, v);
}
INLINE v16 v16_zero(void) { return v16_all(0); }
INLINE v16 v16_load(const float *p) { return V16(vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)); }
INLINE void v16_store(float *p, v16 x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
INLINE float32x4_t v4_load_part(const float *p, int n)
{
    float32x4_t v = vdupq_n_f32(0);
    if (n >= 4) return vld1q_f32(p);
    if (n > 0) v = vld1q_lane_f32(p, v, 0);
    if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}
INLINE void v4_store_part(float *p, float32x4_t v, int n)
{
    if (n >= 4) {
        vst1q_f32(p, v);
        return;
    }
    if (n > 0) vst1q_lane_f32(p, v, 0);
    if (n > 1) vst1q_lane_f32(p + 1, v, 1);
    if (n > 2) vst1q_lane_f32(p + 2, v, 2);
}
/* Few elements: NEON has no masks, so one function, not inlined. */
#define FEW static __attribute__((noinline, unused))
FEW v16 v16_load_few(const float *p, int n)
{
    return V16(v4_load_part(p, n), v4_load_part(p + 4, n - 4), v4_load_part(p + 8, n - 8),
               v4_load_part(p + 12, n - 12));
}
FEW void v16_store_few(float *p, v16 x, int n)
{
    v4_store_part(p, x.a, n);
    v4_store_part(p + 4, x.b, n - 4);
    v4_store_part(p + 8, x.c, n - 8);
    v4_store_part(p + 12, x.d, n - 12);
}
INLINE v16 v16_load_part(const float *p, int n) { return n >= 16 ? v16_load(p) : v16_load_few(p, n); }
INLINE void v16_store_part(float *p, v16 x, int n)
{
    if (n >= 16) v16_store(p, x);
    else v16_store_few(p, x, n);
}

/* One register, for tiles that must not spill. */
typedef float32x4_t vreg;
#define VREG_LANES 4
#define VREGS      32
INLINE vreg vreg_zero(void) { return vdupq_n_f32(0); }
INLINE vreg vreg_load(const float *p) { return vld1q_f32(p); }
INLINE void vreg_store(float *p, vreg a) { vst1q_f32(p, a); }
INLINE vreg vreg_fma(vreg a, vreg b, vreg c) { return vfmaq_f32(c, a, b); }
INLINE vreg vreg_load_f16(const void *p) { return vcvt_f32_f16(vld1_f16(p)); }
INLINE vreg vreg_load_bf16(const void *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }

INLINE v16 v16_load_f16(const void *p)
{
    const uint8_t *h = p;
    return V16(vreg_load_f16(h), vreg_load_f16(h + 8), vreg_load_f16(h + 16), vreg_load_f16(h + 24));
}
INLINE v16 v16_load_bf16(const void *p)
{
    const uint8_t *h = p;
    return V16(vreg_load_bf16(h), vreg_load_bf16(h + 8), vreg_load_bf16(h + 16), vreg_load_bf16(h + 24));
}
INLINE void v16_store_f16(void *p, v16 x)
{
    float16_t *h = p;
    vst1q_f16(h, vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b));
    vst1q_f16(h + 8, vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d));
}
INLINE v16 v16_add(v16 x, v16 y) { return V16_BOTH(vaddq_f32, x, y); }
INLINE v16 v16_sub(v16 x, v16 y) { return V16_BOTH(vsubq_f32, x, y); }
INLINE v16 v16_mul(v16 x, v16 y) { return V16_BOTH(vmulq_f32, x, y); }
INLINE v16 v16_div(v16 x, v16 y) { return V16_BOTH(vdivq_f32, x, y); }
INLINE v16 v16_fma(v16 x, v16 y, v16 z)
{
    return V16(vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d));
}
INLINE float32x4_t v4_max(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
INLINE float32x4_t v4_min(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
INLINE v16 v16_max(v16 x, v16 y) { return V16_BOTH(v4_max, x, y); } /* y when either is NaN */
INLINE v16 v16_min(v16 x, v16 y) { return V16_BOTH(v4_min, x, y); }
INLINE v16 v16_abs(v16 x) { return V16_EACH(vabsq_f32, x); }
INLINE v16 v16_neg(v16 x) { return V16_EACH(vnegq_f32, x); }
INLINE float32x4_t v4_sign_of(float32x4_t size, float32x4_t sign)
{
    return vbslq_f32(vdupq_n_u32(0x80000000), sign, size);
}
INLINE v16 v16_sign_of(v16 size, v16 sign) { return V16_BOTH(v4_sign_of, size, sign); } /* copysign */
INLINE m16 v16_less(v16 x, v16 y)
{
    return (m16){vcltq_f32(x.a, y.a), vcltq_f32(x.b, y.b), vcltq_f32(x.c, y.c), vcltq_f32(x.d, y.d)};
}
INLINE uint32x4_t m4_range(int from, int to, int lane0)
{
    const int32x4_t lane = vaddq_s32((int32x4_t){0, 1, 2, 3}, vdupq_n_s32(lane0));
    return vandq_u32(vcgeq_s32(lane, vdupq_n_s32(from)), vcltq_s32(lane, vdupq_n_s32(to)));
}
INLINE m16 m16_range(int from, int to) /* lanes from … to - 1; any integers */
{
    return (m16){m4_range(from, to, 0), m4_range(from, to, 4), m4_range(from, to, 8), m4_range(from, to, 12)};
}
INLINE v16 v16_pick(m16 m, v16 yes, v16 no)
{
    return V16(vbslq_f32(m.a, yes.a, no.a), vbslq_f32(m.b, yes.b, no.b), vbslq_f32(m.c, yes.c, no.c),
               vbslq_f32(m.d, yes.d, no.d));
}
INLINE float32x4_t v4_2n(int32x4_t n) /* of normal size */
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
INLINE float32x4_t v4_scale_2n(float32x4_t p, float32x4_t t, float32x4_t round)
{
    int32x4_t i = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(round)), h = vshrq_n_s32(i, 1);
    return vmulq_f32(vmulq_f32(p, v4_2n(h)), v4_2n(vsubq_s32(i, h)));
}
/* 2^n with n the integer in the low bits of t - FM_ROUND: two factors, as fm_exp has them. */
INLINE v16 v16_scale_2n(v16 p, v16 t, v16 round)
{
    return V16(v4_scale_2n(p.a, t.a, round.a), v4_scale_2n(p.b, t.b, round.b), v4_scale_2n(p.c, t.c, round.c),
               v4_scale_2n(p.d, t.d, round.d));
}
INLINE float32x4_t v4_times_2n(float32x4_t p, float32x4_t t)
{
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vreinterpretq_s32_f32(t), 23)));
}
INLINE v16 v16_times_2n(v16 p, v16 t) /* the same where 2^n and the result are normal */
{
    return V16_BOTH(v4_times_2n, p, t);
}
INLINE float32x4_t v4_round_bf16(float32x4_t x)
{
    uint32x4_t u = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    u = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
    return vreinterpretq_f32_u32(vandq_u32(u, vdupq_n_u32(0xffff0000)));
}
/* Rounds to bfloat16, ties to even, and widens again; not for NaN. */
INLINE v16 v16_round_bf16(v16 x) { return V16_EACH(v4_round_bf16, x); }
INLINE v16 v16_iota(void)
{
    return V16((float32x4_t){0, 1, 2, 3}, (float32x4_t){4, 5, 6, 7}, (float32x4_t){8, 9, 10, 11},
               (float32x4_t){12, 13, 14, 15});
}
/* 32 neighbours to the 16 even ones and the 16 odd ones, and back. */
INLINE void v16_unzip(v16 *x, v16 *y)
{
    v16 even = V16(vuzp1q_f32(x->a, x->b), vuzp1q_f32(x->c, x->d), vuzp1q_f32(y->a, y->b), vuzp1q_f32(y->c, y->d));
    *y = V16(vuzp2q_f32(x->a, x->b), vuzp2q_f32(x->c, x->d), vuzp2q_f32(y->a, y->b), vuzp2q_f32(y->c, y->d));
    *x = even;
}
INLINE void v16_zip(v16 *x, v16 *y)
{
    v16 low = V16(vzip1q_f32(x->a, y->a), vzip2q_f32(x->a, y->a), vzip1q_f32(x->b, y->b), vzip2q_f32(x->b, y->b));
    *y = V16(vzip1q_f32(x->c, y->c), vzip2q_f32(x->c, y->c), vzip1q_f32(x->d, y->d), vzip2q_f32(x->d, y->d));
    *x = low;
}

/* Four floats. */
typedef float32x4_t v4;
INLINE v4 v4_load(const float *p) { return vld1q_f32(p); }
INLINE void v4_store(float *p, v4 a) { vst1q_f32(p, a); }
INLINE v16 v16_of_fours(v4 a, v4 b, v4 c, v4 d) { return V16(a, b, c, d); }
INLINE v4 v4_add(v4 a, v4 b) { return vaddq_f32(a, b); }
INLINE v4 v4_all(float f) { return vdupq_n_f32(f); }
INLINE v4 v4_mul(v4 a, v4 b) { return vmulq_f32(a, b); }
INLINE v4 v4_fma(v4 a, v4 b, v4 c) { return vfmaq_f32(c, a, b); }
INLINE v4 v4_neg(v4 a) { return vnegq_f32(a); }
INLINE v4 v4_abs(v4 a) { return vabsq_f32(a); }

/* Sum of the lanes in the order of the contract: 8, 4, 2, 1. */
INLINE v4 v16_fold4(v16 x) { return vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d)); }
INLINE float v16_fold(v16 x)
{
    v4 s = v16_fold4(x);
    return vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
}

/* The folds of four values, in order. */
INLINE v4 v4_halves(v4 x, v4 y) /* x0 + x2, x1 + x3, the same of y */
{
    v4 low = vcombine_f32(vget_low_f32(x), vget_low_f32(y)), high = vcombine_f32(vget_high_f32(x), vget_high_f32(y));
    return vaddq_f32(low, high);
}
INLINE v4 v16_fold_four(v16 x, v16 y, v16 z, v16 w)
{
    return vpaddq_f32(v4_halves(v16_fold4(x), v16_fold4(y)), v4_halves(v16_fold4(z), v16_fold4(w)));
}

INLINE v4 v16_max4(v16 x) { return v4_max(v4_max(x.a, x.c), v4_max(x.b, x.d)); }
/* The maximum lane of each of four values, in order; none is NaN. */
INLINE v4 v16_max_four(v16 x, v16 y, v16 z, v16 w)
{
    return vpmaxq_f32(vpmaxq_f32(v16_max4(x), v16_max4(y)), vpmaxq_f32(v16_max4(z), v16_max4(w)));
}
INLINE float v16_max_lane(v16 x)
{
    v4 m = v16_max4(x);
    m = v4_max(m, vextq_f32(m, m, 2));
    return vgetq_lane_f32(v4_max(m, vextq_f32(m, m, 1)), 0);
}

/* Sixteen bytes. */
typedef int8x16_t b16;
INLINE void b16_store(void *p, b16 a) { vst1q_s8(p, a); }

/* Sixteen floats rounded to bytes: -128 … 127, and 0 … 255. The low halves of words, then of those. */
INLINE b16 v16_i8(v16 x)
{
    int16x8_t low = vuzp1q_s16(vreinterpretq_s16_s32(vcvtnq_s32_f32(x.a)), vreinterpretq_s16_s32(vcvtnq_s32_f32(x.b)));
    int16x8_t high = vuzp1q_s16(vreinterpretq_s16_s32(vcvtnq_s32_f32(x.c)), vreinterpretq_s16_s32(vcvtnq_s32_f32(x.d)));
    return vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high));
}
INLINE b16 v16_u8(v16 x) { return v16_i8(x); }

/* The low halves of sixteen words. */
INLINE void v16_store_int(int16_t *p, v16 x)
{
    vst1q_s16(p, vuzp1q_s16(vreinterpretq_s16_f32(x.a), vreinterpretq_s16_f32(x.b)));
    vst1q_s16(p + 8, vuzp1q_s16(vreinterpretq_s16_f32(x.c), vreinterpretq_s16_f32(x.d)));
}

/* The maximum magnitude of n (a multiple of 16) floats; not finite if one of them is not. */
INLINE float v16_max_magnitude(const float *x, int n)
{
    uint32x4_t most = vdupq_n_u32(0);
    for (int i = 0; i < n; i += 4) most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
    return bits_float(vmaxvq_u32(most));
}

/* Four sums in 32 bits: of four signed bytes each, of neighbours in a, then in b. */
typedef int32x4_t s4;
INLINE v16 s4_floats(const s4 a[4])
{
    return V16(vcvtq_f32_s32(a[0]), vcvtq_f32_s32(a[1]), vcvtq_f32_s32(a[2]), vcvtq_f32_s32(a[3]));
}
INLINE s4 s4_zero(void) { return vdupq_n_s32(0); }
INLINE s4 s4_load(const int32_t *p) { return vld1q_s32(p); }
INLINE void s4_store(int32_t *p, s4 a) { vst1q_s32(p, a); }
INLINE v4 v4_of_s4(s4 a) { return vcvtq_f32_s32(a); }
INLINE s4 s4_of_bytes(b16 a) { return vpaddlq_s16(vpaddlq_s8(a)); }
INLINE s4 s4_add_bytes(s4 sum, b16 a) { return vpadalq_s16(sum, vpaddlq_s8(a)); }
INLINE s4 s4_less(s4 a) { return vnegq_s32(a); }
INLINE s4 s4_pairs(s4 a, s4 b) { return vpaddq_s32(a, b); }
INLINE s4 s4_add(s4 a, s4 b) { return vaddq_s32(a, b); }
INLINE int32_t s4_fold(s4 a) { return vaddvq_s32(a); }
INLINE void s4_store_i16(int16_t *p, s4 a, s4 b) { vst1q_s16(p, vcombine_s16(vmovn_s32(a), vmovn_s32(b))); } /* eight */

/* sum + a times the four bytes of `lane` of x, four products for each word. Without the instruction for it, sums of
 * two products have 16 bits: neither side may be -128 throughout. */
INLINE s4 s4_dot(s4 sum, b16 a, b16 x, int lane)
{
#if defined(__ARM_FEATURE_DOTPROD)
    switch (lane) {
    case 0: return vdotq_laneq_s32(sum, a, x, 0);
    case 1: return vdotq_laneq_s32(sum, a, x, 1);
    case 2: return vdotq_laneq_s32(sum, a, x, 2);
    default: return vdotq_laneq_s32(sum, a, x, 3);
    }
#else
    int32x4_t of = vreinterpretq_s32_s8(x);
    x = vreinterpretq_s8_s32(lane == 0   ? vdupq_laneq_s32(of, 0)
                             : lane == 1 ? vdupq_laneq_s32(of, 1)
                             : lane == 2 ? vdupq_laneq_s32(of, 2)
                                         : vdupq_laneq_s32(of, 3));
    int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(x)), high = vmull_high_s8(a, x);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}
