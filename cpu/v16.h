/* v16.h - sixteen floats as one value: the lanes of the arithmetic contract, on AVX2 (two registers) and AVX-512 (one).
 *
 * Kernel bodies (v_*.h) are written once over this header and compiled once per instruction set, in kernels_<isa>.c. Every
 * operation rounds as its scalar counterpart does, so that a body that follows its reference lane by lane has the same bits. */
#ifndef CPU_V16_H
#define CPU_V16_H
#include "tensor/dtype.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

#if defined(__AVX512F__)

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

/* One register: what tiles that must not spill are written in. */
typedef __m512 vreg;
enum { VREG_LANES = 16, VREGS = 32 };
INLINE vreg vreg_zero(void) { return _mm512_setzero_ps(); }
INLINE vreg vreg_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vreg_store(float *p, vreg a) { _mm512_storeu_ps(p, a); }
INLINE vreg vreg_fma(vreg a, vreg b, vreg c) { return _mm512_fmadd_ps(a, b, c); }
INLINE __m256 v16_max8(v16 a) { return _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }

#else

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

/* One register: what tiles that must not spill are written in. */
typedef __m256 vreg;
enum { VREG_LANES = 8, VREGS = 16 };
INLINE vreg vreg_zero(void) { return _mm256_setzero_ps(); }
INLINE vreg vreg_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vreg_store(float *p, vreg a) { _mm256_storeu_ps(p, a); }
INLINE vreg vreg_fma(vreg a, vreg b, vreg c) { return _mm256_fmadd_ps(a, b, c); }
INLINE __m256 v16_max8(v16 a) { return _mm256_max_ps(a.lo, a.hi); }

#endif

/* Sum of the lanes in the order of the contract: 8, 4, 2, 1. */
INLINE float v16_fold(v16 a)
{
    __m256 b = v16_fold8(a);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* The folds of four values, in order. */
INLINE __m128 v16_fold_four(v16 a, v16 b, v16 c, v16 d)
{
    __m256 a8 = v16_fold8(a), b8 = v16_fold8(b), c8 = v16_fold8(c), d8 = v16_fold8(d);
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
    __m256 u = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    __m256 s = _mm256_add_ps(_mm256_shuffle_ps(u, u, 0x88), _mm256_shuffle_ps(u, u, 0xdd)); /* a c a c | b d b d */
    return _mm_unpacklo_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

INLINE float v16_max_lane(v16 a)
{
    __m256 b = v16_max8(a);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* Elements i … i + 15 of a row of floats of type f32, f16 or bf16, which stays where it lies (any alignment). */
INLINE v16 v16_load_as(dtype t, const uint8_t *row, int64_t i)
{
    if (t == DTYPE_F16) return v16_load_f16(row + 2 * i);
    if (t == DTYPE_BF16) return v16_load_bf16(row + 2 * i);
    return v16_load((const float *)(const void *)(row + 4 * i));
}

/* The same for the last n < 16 elements, zeros beyond: nothing after the row is read. */
INLINE v16 v16_load_as_part(dtype t, const uint8_t *row, int64_t i, int n)
{
    if (t == DTYPE_F32) return v16_load_part((const float *)(const void *)(row + 4 * i), n);
    uint16_t h[16] = {0};
    memcpy(h, row + 2 * i, 2 * (size_t)n);
    return t == DTYPE_F16 ? v16_load_f16(h) : v16_load_bf16(h);
}

#endif
