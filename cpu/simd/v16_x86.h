/* v16_x86.h - sixteen lanes (v16.h) on x86: what AVX2 and AVX-512 share. */
#pragma once
#if defined(__AVX512F__)
#include "cpu/simd/v16_avx512.h"
#else
#include "cpu/simd/v16_avx2.h"
#endif

/* Four floats. */
typedef __m128 v4;
INLINE v4 v4_load(const float *p) { return _mm_loadu_ps(p); }
INLINE void v4_store(float *p, v4 a) { _mm_storeu_ps(p, a); }
INLINE v4 v4_add(v4 a, v4 b) { return _mm_add_ps(a, b); }
INLINE v4 v4_all(float f) { return _mm_set1_ps(f); }
INLINE v4 v4_mul(v4 a, v4 b) { return _mm_mul_ps(a, b); }
INLINE v4 v4_fma(v4 a, v4 b, v4 c) { return _mm_fmadd_ps(a, b, c); }
INLINE v4 v4_neg(v4 a) { return _mm_xor_ps(a, _mm_set1_ps(-0.0f)); }
INLINE v4 v4_abs(v4 a) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), a); }
INLINE v16 v16_of_fours(v4 a, v4 b, v4 c, v4 d)
{
    __m256 low = _mm256_set_m128(b, a), high = _mm256_set_m128(d, c);
#if defined(__AVX512F__)
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
#else
    return V16(low, high);
#endif
}

/* Sum of the lanes in the order of the contract: 8, 4, 2, 1. */
INLINE float v16_fold(v16 a)
{
    __m256 b = v16_fold8(a);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* The folds of four values, in order. */
INLINE v4 v16_fold_four(v16 a, v16 b, v16 c, v16 d)
{
    __m256 a8 = v16_fold8(a), b8 = v16_fold8(b), c8 = v16_fold8(c), d8 = v16_fold8(d);
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
    __m256 u = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    __m256 s = _mm256_add_ps(_mm256_shuffle_ps(u, u, 0x88), _mm256_shuffle_ps(u, u, 0xdd)); /* a c a c | b d b d */
    return _mm_unpacklo_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

/* The maximum lane of each of four values, in order; none is NaN. */
INLINE v4 v16_max_four(v16 a, v16 b, v16 c, v16 d)
{
    __m256 a8 = v16_max8(a), b8 = v16_max8(b), c8 = v16_max8(c), d8 = v16_max8(d);
    __m256 ab = _mm256_max_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
    __m256 cd = _mm256_max_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
    __m256 u = _mm256_max_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    __m256 s = _mm256_max_ps(_mm256_shuffle_ps(u, u, 0x88), _mm256_shuffle_ps(u, u, 0xdd)); /* a c a c | b d b d */
    return _mm_unpacklo_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

INLINE float v16_max_lane(v16 a)
{
    __m256 b = v16_max8(a);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* Sixteen bytes. */
typedef __m128i b16;
INLINE void b16_store(void *p, b16 a) { _mm_storeu_si128(p, a); }

/* Four sums in 32 bits: of four signed bytes each, of neighbours in a, then in b. */
typedef __m128i s4;
INLINE s4 s4_zero(void) { return _mm_setzero_si128(); }
INLINE s4 s4_load(const int32_t *p) { return _mm_loadu_si128((const void *)p); }
INLINE void s4_store(int32_t *p, s4 a) { _mm_storeu_si128((void *)p, a); }
INLINE v4 v4_of_s4(s4 a) { return _mm_cvtepi32_ps(a); }
INLINE s4 s4_of_bytes(b16 a) { return _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi8(1), a), _mm_set1_epi16(1)); }
INLINE s4 s4_less(s4 a) { return _mm_sub_epi32(_mm_setzero_si128(), a); }
INLINE s4 s4_pairs(s4 a, s4 b) { return _mm_hadd_epi32(a, b); }
INLINE s4 s4_add(s4 a, s4 b) { return _mm_add_epi32(a, b); }
INLINE int32_t s4_fold(s4 a)
{
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}
INLINE void s4_store_i16(int16_t *p, s4 a, s4 b) { _mm_storeu_si128((void *)p, _mm_packs_epi32(a, b)); } /* eight */
