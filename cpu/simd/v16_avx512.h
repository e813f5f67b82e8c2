/* v16_avx512.h - sixteen lanes (v16.h) as one register of AVX-512. */
#pragma once
#include "base/half.h"

#include <immintrin.h>

typedef __m512 v16;
typedef __mmask16 m16; /* a truth value per lane */
INLINE v16 v16_zero(void) { return _mm512_setzero_ps(); }
INLINE v16 v16_all(float f) { return _mm512_set1_ps(f); }
INLINE v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v16_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
INLINE __mmask16 v16_first(int n) { return (__mmask16)((1u << n) - 1); }
INLINE v16 v16_load_part(const float *p, int n) { return _mm512_maskz_loadu_ps(v16_first(n), p); }
INLINE void v16_store_part(float *p, v16 a, int n) { _mm512_mask_storeu_ps(p, v16_first(n), a); }
INLINE v16 v16_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE v16 v16_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
INLINE void v16_store_f16(void *p, v16 a)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
INLINE v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
INLINE v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
INLINE v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
INLINE v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); } /* b when either is NaN */
INLINE v16 v16_min(v16 a, v16 b) { return _mm512_min_ps(a, b); }
INLINE v16 v16_abs(v16 a) { return _mm512_abs_ps(a); }
INLINE v16 v16_neg(v16 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
INLINE v16 v16_sign_of(v16 size, v16 sign) /* copysign */
{
    __m512i s = _mm512_set1_epi32(INT32_MIN); /* bitwise: s ? sign : size */
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(s, _mm512_castps_si512(sign), _mm512_castps_si512(size), 0xca));
}
INLINE m16 v16_less(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
INLINE int v16_clip(int n) { return n < 0 ? 0 : n > 16 ? 16 : n; }
INLINE m16 m16_range(int from, int to) /* lanes from … to - 1; any integers */
{
    return (m16)(v16_first(v16_clip(to)) & ~v16_first(v16_clip(from)));
}
INLINE v16 v16_pick(m16 m, v16 yes, v16 no) { return _mm512_mask_blend_ps(m, no, yes); }
/* 2^n with n the integer in the low bits of t - FM_ROUND: two factors, as fm_exp has them. */
INLINE v16 v16_scale_2n(v16 p, v16 t, v16 round)
{
    __m512i i = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_castps_si512(round));
    __m512i h = _mm512_srai_epi32(i, 1), b = _mm512_set1_epi32(127);
    p = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(h, b), 23)));
    i = _mm512_sub_epi32(i, h);
    return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(i, b), 23)));
}
INLINE v16 v16_times_2n(v16 p, v16 t) /* the same where 2^n and the result are normal */
{
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
}
/* Rounds to bfloat16, ties to even, and widens again; not for NaN. */
INLINE v16 v16_round_bf16(v16 a)
{
    __m512i u = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    u = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_castsi512_ps(_mm512_and_si512(u, _mm512_set1_epi32((int)0xffff0000)));
}
INLINE v16 v16_iota(void) { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
/* 32 neighbours to the 16 even ones and the 16 odd ones, and back. */
INLINE void v16_unzip(v16 *a, v16 *b)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    v16 e = _mm512_permutex2var_ps(*a, even, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), *b);
    *a = e;
}
INLINE void v16_zip(v16 *a, v16 *b)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    v16 l = _mm512_permutex2var_ps(*a, low, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), *b);
    *a = l;
}
INLINE __m256 v16_fold8(v16 a) { return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }

/* One register, for tiles that must not spill. */
typedef __m512 vreg;
#define VREG_LANES 16
#define VREGS      32
INLINE vreg vreg_zero(void) { return _mm512_setzero_ps(); }
INLINE vreg vreg_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vreg_store(float *p, vreg a) { _mm512_storeu_ps(p, a); }
INLINE vreg vreg_fma(vreg a, vreg b, vreg c) { return _mm512_fmadd_ps(a, b, c); }
INLINE __m256 v16_max8(v16 a) { return _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }
INLINE vreg vreg_load_f16(const void *p) { return v16_load_f16(p); }
INLINE vreg vreg_load_bf16(const void *p) { return v16_load_bf16(p); }

/* Sixteen floats rounded to bytes: -128 … 127, and 0 … 255. */
INLINE __m128i v16_i8(v16 a) { return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)); }
INLINE __m128i v16_u8(v16 a) { return v16_i8(a); }

/* The low halves of sixteen words. */
INLINE void v16_store_int(int16_t *p, v16 a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(_mm512_castps_si512(a)));
}

/* The maximum magnitude of n (a multiple of 16) floats; not finite if one of them is not. */
INLINE float v16_max_magnitude(const float *x, int n)
{
    __m512i most = _mm512_setzero_si512();
    for (int i = 0; i < n; i += 16)
        most = _mm512_max_epu32(
            most, _mm512_and_si512(_mm512_loadu_si512((const void *)(x + i)), _mm512_set1_epi32(INT32_MAX)));
    return bits_float(_mm512_reduce_max_epu32(most));
}
