/* v_wire.h - codecs of activations between devices on sixteen lanes; definition: tensor/wire.c.
 *
 * Steps, zero points and inverses of sixteen groups are made together, a lane each. Short groups, those of a length
 * that is no multiple of 32, are left to the definition. */
#pragma once
#include "base/fmath.h"
#include "cpu/cpu.h"
#include "cpu/simd/v16.h"
#include "tensor/act_q8.h"
#include "tensor/wire.h"

#include <string.h>

/* ---- bytes to lanes */
#if defined(__x86_64__)
INLINE b16 wire_load(const uint8_t *p) { return _mm_loadu_si128((const void *)p); }
INLINE b16 wire_pack(b16 low, b16 high) { return _mm_or_si128(low, _mm_slli_epi16(high, 4)); } /* of 4 bits each */
INLINE b16 wire_low(b16 a) { return _mm_and_si128(a, _mm_set1_epi8(15)); }
INLINE b16 wire_high(b16 a) { return wire_low(_mm_srli_epi16(a, 4)); }
#if defined(__AVX512F__)
INLINE v16 wire_unsigned(b16 a) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(a)); }
INLINE v16 wire_signed(b16 a) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a)); }
INLINE v16 wire_half(uint16_t h) { return _mm512_cvtph_ps(_mm256_set1_epi16((int16_t)h)); } /* f16, in all lanes */
#else
INLINE v16 wire_unsigned(b16 a)
{
    return V16(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(a)),
               _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))));
}
INLINE v16 wire_signed(b16 a)
{
    return V16(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a)),
               _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))));
}
INLINE v16 wire_half(uint16_t h)
{
    __m256 v = _mm256_cvtph_ps(_mm_set1_epi16((int16_t)h));
    return V16(v, v);
}
#endif
#else
INLINE b16 wire_load(const uint8_t *p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
INLINE b16 wire_pack(b16 low, b16 high) { return vorrq_s8(low, vshlq_n_s8(high, 4)); }
INLINE b16 wire_low(b16 a) { return vandq_s8(a, vdupq_n_s8(15)); }
INLINE b16 wire_high(b16 a) { return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(a), 4)); }
INLINE v16 wire_unsigned(b16 a)
{
    uint16x8_t low = vmovl_u8(vget_low_u8(vreinterpretq_u8_s8(a))), high = vmovl_high_u8(vreinterpretq_u8_s8(a));
    return V16(vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_high_u16(low)),
               vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_high_u16(high)));
}
INLINE v16 wire_signed(b16 a)
{
    int16x8_t low = vmovl_s8(vget_low_s8(a)), high = vmovl_high_s8(a);
    return V16(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
               vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high)));
}
INLINE v16 wire_half(uint16_t h)
{
    float32x4_t v = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h)));
    return V16(v, v, v, v);
}
#endif

/* ---- int8, int4, int8s, int4s: groups of n elements, a multiple of 32 */

/* Of up to sixteen groups. */
typedef struct wire_scales {
    _Alignas(64) float inverse[LANES], zero[LANES];
    uint16_t step[LANES]; /* f16 */
} wire_scales;

/* wire.c: scale_of. */
static void wire_scale_groups(wire_type t, const float *x, int64_t n, int groups, wire_scales *to)
{
    _Alignas(64) float low[LANES] = {0}, high[LANES] = {0}, odd[LANES] = {0};
    const float limit = (float)wire_limit(t), middle = (limit + 1) / 2;
    for (int g = 0; g < groups; g += 4) {
        v16 lo[4], hi[4], not_finite[4];
        UNROLLED (i, 4) lo[i] = hi[i] = not_finite[i] = v16_zero();
        for (int i = 0; i < 4 && g + i < groups; i++) {
            const float *from = x + (g + i) * n;
            v16 l = v16_zero(), h = v16_zero(), o = v16_zero();
            for (int64_t k = 0; k < n; k += LANES) {
                v16 v = v16_load(from + k);
                l = v16_max(v16_neg(v), l);
                h = v16_max(v, h);
                o = v16_fma(v, v16_zero(), o);
            }
            lo[i] = l;
            hi[i] = h;
            not_finite[i] = o;
        }
        v4_store(low + g, v16_max_four(lo[0], lo[1], lo[2], lo[3]));
        v4_store(high + g, v16_max_four(hi[0], hi[1], hi[2], hi[3]));
        v4_store(odd + g, v16_fold_four(not_finite[0], not_finite[1], not_finite[2], not_finite[3]));
    }
    v16 l = v16_load(low), h = v16_load(high);
    v16 size = wire_symmetric(t) ? v16_div(v16_max(h, l), v16_all(middle - 1)) : v16_div(v16_add(h, l), v16_all(limit));
    _Alignas(64) float exact[LANES], half[LANES];
    v16_store(exact, size);
    v16_store_f16(to->step, size);
    v16_store(half, v16_load_f16(to->step));
    for (int i = 0; i < LANES; i++) to->step[i] += half[i] < exact[i];
    size = v16_load_f16(to->step);
    v16 inverse = v16_pick(v16_less(v16_zero(), size), v16_div(v16_all(1), size), v16_zero()),
        round = v16_all(FM_ROUND);
    v16 zero = v16_sub(v16_add(v16_min(v16_mul(l, inverse), v16_all(limit)), round), round);
    v16_store(to->inverse, inverse);
    v16_store(to->zero, wire_symmetric(t) ? v16_all(middle) : zero);
    for (int i = 0; i < groups; i++)
        if (odd[i] != 0 || (to->step[i] & 0x7fff) >= 0x7c00) {
            to->step[i] = 0x7e00;
            to->inverse[i] = to->zero[i] = 0;
        }
}

INLINE b16 wire_codes(const float *x, v16 inverse, v16 zero, v16 limit)
{
    return v16_u8(v16_min(v16_max(v16_fma(v16_load(x), inverse, zero), v16_zero()), limit));
}

INLINE void wire_encode_groups(wire_type t, const float *x, int64_t n, int groups, uint8_t *to)
{
    wire_scales s;
    const int head = wire_infos[t].head;
    const v16 limit = v16_all((float)wire_limit(t));
    wire_scale_groups(t, x, n, groups, &s);
    for (int g = 0; g < groups; g++, x += n) {
        if (s.step[g] == 0x7e00) {
            wire_reference.encode(t, n, x, n, to);
            to += wire_group_bytes(t, n);
            continue;
        }
        const v16 inverse = v16_all(s.inverse[g]), zero = v16_all(s.zero[g]);
        memcpy(to, &s.step[g], 2);
        if (head == 3) to[2] = (uint8_t)s.zero[g];
        to += head;
        if (wire_infos[t].bits == 8)
            for (int64_t i = 0; i < n; i += LANES, to += LANES) b16_store(to, wire_codes(x + i, inverse, zero, limit));
        else
            for (int64_t i = 0; i < n; i += 2 * LANES, to += LANES)
                b16_store(to, wire_pack(wire_codes(x + i, inverse, zero, limit),
                                        wire_codes(x + i + LANES, inverse, zero, limit)));
    }
}

/* Sixteen codes as values; to the floats at x, or added to them. Code times step is exact: one rounding. */
INLINE void wire_put(bool adds, v16 code, v16 zero, v16 size, float *x)
{
    v16_store(x, adds ? v16_fma(v16_sub(code, zero), size, v16_load(x)) : v16_mul(v16_sub(code, zero), size));
}

INLINE void wire_decode_group(wire_type t, bool adds, const uint8_t *from, int64_t n, float *x)
{
    uint16_t half;
    memcpy(&half, from, 2);
    const v16 size = wire_half(half);
    const v16 zero = v16_all(wire_symmetric(t) ? (float)((wire_limit(t) + 1) / 2) : (float)from[2]);
    from += wire_infos[t].head;
    if (wire_infos[t].bits == 8)
        for (int64_t i = 0; i < n; i += LANES) wire_put(adds, wire_unsigned(wire_load(from + i)), zero, size, x + i);
    else
        for (int64_t i = 0; i < n; i += 2 * LANES, from += LANES) {
            const b16 codes = wire_load(from);
            wire_put(adds, wire_unsigned(wire_low(codes)), zero, size, x + i);
            wire_put(adds, wire_unsigned(wire_high(codes)), zero, size, x + i + LANES);
        }
}

/* ---- q8: blocks of 64 */
INLINE void wire_encode_q8(const float *x, uint8_t *to)
{
    const float most = v16_max_magnitude(x, WIRE_Q8_GROUP);
    if (!(most < INFINITY)) {
        wire_reference.encode(WIRE_Q8, 0, x, WIRE_Q8_GROUP, to);
        return;
    }
    const float inverse = most >= ACT_TINY ? 127 / most : 0, scale = most >= ACT_TINY ? most / 127 : 0;
    memcpy(to, &scale, 4);
    UNROLLED (i, 4) b16_store(to + 4 + i * LANES, v16_i8(v16_mul(v16_load(x + i * LANES), v16_all(inverse))));
}

INLINE void wire_decode_q8(bool adds, const uint8_t *from, float *x)
{
    float scale;
    memcpy(&scale, from, 4);
    UNROLLED (i, 4) {
        v16 v = v16_mul(v16_all(scale), wire_signed(wire_load(from + 4 + i * LANES)));
        v16_store(x + i * LANES, adds ? v16_add(v16_load(x + i * LANES), v) : v);
    }
}

/* ---- rows */

/* Elements of whole groups that the bodies above take, of n. */
INLINE int64_t wire_whole(wire_type t, int64_t group, int64_t n)
{
    if (t == WIRE_F32 || t == WIRE_F16) return n / LANES * LANES;
    return group % 32 ? 0 : n / group * group;
}

static void v_wire_encode(wire_type t, int64_t group, const float *x, int64_t n, uint8_t *to)
{
    group = wire_group(t, group);
    const int64_t whole = wire_whole(t, group, n), bytes = wire_group_bytes(t, group);
    if (t == WIRE_F32)
        for (int64_t i = 0; i < whole; i += LANES, to += 4 * LANES) memcpy(to, x + i, 4 * LANES);
    else if (t == WIRE_F16)
        for (int64_t i = 0; i < whole; i += LANES, to += 2 * LANES) v16_store_f16(to, v16_load(x + i));
    else if (t == WIRE_Q8)
        for (int64_t i = 0; i < whole; i += group, to += bytes) wire_encode_q8(x + i, to);
    else
        for (int64_t i = 0, in; i < whole; i += in, to += in / group * bytes) {
            in = whole - i < LANES * group ? whole - i : LANES * group;
            wire_encode_groups(t, x + i, group, (int)(in / group), to);
        }
    wire_reference.encode(t, group, x + whole, n - whole, to);
}

INLINE void wire_to_floats(wire_type t, bool adds, int64_t group, const uint8_t *from, int64_t n, float *x)
{
    group = wire_group(t, group);
    const int64_t whole = wire_whole(t, group, n), bytes = wire_group_bytes(t, group);
    if (t == WIRE_F32 || t == WIRE_F16)
        for (int64_t i = 0; i < whole; i += LANES, from += wire_infos[t].bits / 8 * LANES) {
            const v16 v = v16_load_as(t == WIRE_F32 ? DTYPE_F32 : DTYPE_F16, from, 0);
            v16_store(x + i, adds ? v16_add(v16_load(x + i), v) : v);
        }
    else if (t == WIRE_Q8)
        for (int64_t i = 0; i < whole; i += group, from += bytes) wire_decode_q8(adds, from, x + i);
    else
        for (int64_t i = 0; i < whole; i += group, from += bytes) wire_decode_group(t, adds, from, group, x + i);
    (adds ? wire_reference.add : wire_reference.decode)(t, group, from, n - whole, x + whole);
}

static void v_wire_decode(wire_type t, int64_t group, const uint8_t *from, int64_t n, float *x)
{
    wire_to_floats(t, false, group, from, n, x);
}

static void v_wire_add(wire_type t, int64_t group, const uint8_t *from, int64_t n, float *x)
{
    wire_to_floats(t, true, group, from, n, x);
}

static const wire_ops v_wire = {v_wire_encode, v_wire_decode, v_wire_add};
