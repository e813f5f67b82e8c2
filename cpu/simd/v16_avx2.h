/* v16_avx2.h - sixteen lanes (v16.h) as two registers of AVX2, FMA and F16C. */
#pragma once
#include "base/half.h"

#include <immintrin.h>

typedef struct v16 {
    __m256 lo, hi;
} v16;
typedef v16 m16;
#define V16(l, h)         ((v16){l, h})
#define V16_EACH(f, a, b) V16(f((a).lo, (b).lo), f((a).hi, (b).hi))
INLINE v16 v16_zero(void) { return V16(_mm256_setzero_ps(), _mm256_setzero_ps()); }
INLINE v16 v16_all(float f) { return V16(_mm256_set1_ps(f), _mm256_set1_ps(f)); }
INLINE v16 v16_load(const float *p) { return V16(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
INLINE void v16_store(float *p, v16 a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
INLINE __m256i v16_first8(int n) /* all ones in lanes below n */
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE v16 v16_load_part(const float *p, int n)
{
    if (n >= 16) return v16_load(p);
    return V16(_mm256_maskload_ps(p, v16_first8(n)),
               n > 8 ? _mm256_maskload_ps(p + 8, v16_first8(n - 8)) : _mm256_setzero_ps());
}
INLINE void v16_store_part(float *p, v16 a, int n)
{
    if (n >= 16) {
        v16_store(p, a);
        return;
    }
    _mm256_maskstore_ps(p, v16_first8(n), a.lo);
    if (n > 8) _mm256_maskstore_ps(p + 8, v16_first8(n - 8), a.hi);
}
INLINE v16 v16_load_f16(const void *p)
{
    const __m128i *h = p;
    return V16(_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1)));
}
INLINE v16 v16_load_bf16(const void *p)
{
    const __m128i *h = p;
    __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(h)), hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1));
    return V16(_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16)));
}
INLINE void v16_store_f16(void *p, v16 a)
{
    __m128i *h = p;
    _mm_storeu_si128(h, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE v16 v16_add(v16 a, v16 b) { return V16_EACH(_mm256_add_ps, a, b); }
INLINE v16 v16_sub(v16 a, v16 b) { return V16_EACH(_mm256_sub_ps, a, b); }
INLINE v16 v16_mul(v16 a, v16 b) { return V16_EACH(_mm256_mul_ps, a, b); }
INLINE v16 v16_div(v16 a, v16 b) { return V16_EACH(_mm256_div_ps, a, b); }
INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
    return V16(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}
INLINE v16 v16_max(v16 a, v16 b) { return V16_EACH(_mm256_max_ps, a, b); } /* b when either is NaN */
INLINE v16 v16_min(v16 a, v16 b) { return V16_EACH(_mm256_min_ps, a, b); }
INLINE v16 v16_abs(v16 a) { return V16_EACH(_mm256_andnot_ps, v16_all(-0.0f), a); }
INLINE v16 v16_neg(v16 a) { return V16_EACH(_mm256_xor_ps, a, v16_all(-0.0f)); }
INLINE v16 v16_sign_of(v16 size, v16 sign) /* copysign */
{
    v16 s = v16_all(-0.0f), a = V16_EACH(_mm256_and_ps, s, sign), b = V16_EACH(_mm256_andnot_ps, s, size);
    return V16_EACH(_mm256_or_ps, a, b);
}
INLINE m16 v16_less(v16 a, v16 b)
{
    return V16(_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ));
}
INLINE m16 m16_range(int from, int to) /* lanes from … to - 1; any integers */
{
    __m256i a = _mm256_andnot_si256(v16_first8(from), v16_first8(to));
    __m256i b = _mm256_andnot_si256(v16_first8(from - 8), v16_first8(to - 8));
    return V16(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
}
INLINE v16 v16_pick(m16 m, v16 yes, v16 no)
{
    return V16(_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi));
}
INLINE __m256 v16_half_scale_2n(__m256 p, __m256 t, __m256 round)
{
    __m256i i = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(round));
    __m256i h = _mm256_srai_epi32(i, 1), b = _mm256_set1_epi32(127);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(h, b), 23)));
    i = _mm256_sub_epi32(i, h);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(i, b), 23)));
}
/* 2^n with n the integer in the low bits of t - FM_ROUND: two factors, as fm_exp has them. */
INLINE v16 v16_scale_2n(v16 p, v16 t, v16 round)
{
    return V16(v16_half_scale_2n(p.lo, t.lo, round.lo), v16_half_scale_2n(p.hi, t.hi, round.hi));
}
INLINE __m256 v16_half_times_2n(__m256 p, __m256 t)
{
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
}
INLINE v16 v16_times_2n(v16 p, v16 t) /* the same where 2^n and the result are normal */
{
    return V16(v16_half_times_2n(p.lo, t.lo), v16_half_times_2n(p.hi, t.hi));
}
INLINE __m256 v16_half_round_bf16(__m256 a)
{
    __m256i u = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    u = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000)));
}
/* Rounds to bfloat16, ties to even, and widens again; not for NaN. */
INLINE v16 v16_round_bf16(v16 a) { return V16(v16_half_round_bf16(a.lo), v16_half_round_bf16(a.hi)); }
INLINE v16 v16_iota(void)
{
    return V16(_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15));
}
/* 32 neighbours to the 16 even ones and the 16 odd ones, and back. */
INLINE void v16_unzip(v16 *a, v16 *b)
{
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7); /* shuffle_ps works in 128-bit halves */
    v16 x = *a, y = *b;
    *a = V16(_mm256_permutevar8x32_ps(_mm256_shuffle_ps(x.lo, x.hi, 0x88), order),
             _mm256_permutevar8x32_ps(_mm256_shuffle_ps(y.lo, y.hi, 0x88), order));
    *b = V16(_mm256_permutevar8x32_ps(_mm256_shuffle_ps(x.lo, x.hi, 0xdd), order),
             _mm256_permutevar8x32_ps(_mm256_shuffle_ps(y.lo, y.hi, 0xdd), order));
}
INLINE void v16_half_zip(__m256 a, __m256 b, v16 *to)
{
    __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    *to = V16(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}
INLINE void v16_zip(v16 *a, v16 *b)
{
    v16 x = *a, y = *b;
    v16_half_zip(x.lo, y.lo, a);
    v16_half_zip(x.hi, y.hi, b);
}
INLINE __m256 v16_fold8(v16 a) { return _mm256_add_ps(a.lo, a.hi); }

/* One register, for tiles that must not spill. */
typedef __m256 vreg;
#define VREG_LANES 8
#define VREGS      16
INLINE vreg vreg_zero(void) { return _mm256_setzero_ps(); }
INLINE vreg vreg_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vreg_store(float *p, vreg a) { _mm256_storeu_ps(p, a); }
INLINE vreg vreg_fma(vreg a, vreg b, vreg c) { return _mm256_fmadd_ps(a, b, c); }
INLINE __m256 v16_max8(v16 a) { return _mm256_max_ps(a.lo, a.hi); }
INLINE vreg vreg_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
INLINE vreg vreg_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

/* Sixteen floats rounded to bytes: -128 … 127, and 0 … 255. */
INLINE __m256i v16_i16(v16 a)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)), 0xd8);
}
INLINE __m128i v16_i8(v16 a)
{
    __m256i both = v16_i16(a);
    return _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}
INLINE __m128i v16_u8(v16 a)
{
    __m256i both = v16_i16(a);
    return _mm_packus_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

/* The low halves of sixteen words. */
INLINE void v16_store_int(int16_t *p, v16 a)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i lo = _mm256_and_si256(_mm256_castps_si256(a.lo), low),
            hi = _mm256_and_si256(_mm256_castps_si256(a.hi), low);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8));
}

/* The maximum magnitude of n (a multiple of 16) floats; not finite if one of them is not. */
INLINE float v16_max_magnitude(const float *x, int n)
{
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 8) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        most = _mm256_max_epu32(most, _mm256_and_si256(v, _mm256_set1_epi32(INT32_MAX)));
    }
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return bits_float((uint32_t)_mm_cvtsi128_si32(m));
}
