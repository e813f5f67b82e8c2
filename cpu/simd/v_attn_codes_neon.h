/* v_attn_codes_neon.h - the two products of v_attn_codes.h on NEON, whose multiplier takes signed bytes: codes of
 * keys, and weights, of eight bits are reduced by 128, and sums start from 128 times the sum of the other factor. */
#pragma once
#include "core/kv_codes.h"
#include "cpu/simd/v16.h"

#define CODE_LOAD(p) vld1q_u8(p)
#define CODE_LOW(v)  vandq_u8(v, vdupq_n_u8(15))
#define CODE_HIGH(v) vshrq_n_u8(v, 4)
#define CODE_LESS(v) vreinterpretq_s8_u8(veorq_u8(v, vdupq_n_u8(128)))

INLINE b16 code_word(const void *codes) /* four codes, everywhere */
{
    return vreinterpretq_s8_s32(vdupq_n_s32(code_four(codes)));
}

/* 32 numbers of 16 bits: for half of a tile's keys. */
typedef struct w32 {
    int16x8_t v[4];
} w32;
INLINE w32 w32_load(const void *p)
{
    w32 a;
    UNROLLED (i, 4) a.v[i] = vld1q_s16((const int16_t *)p + 8 * i);
    return a;
}
INLINE void w32_store(void *p, w32 a)
{
    UNROLLED (i, 4) vst1q_s16((int16_t *)p + 8 * i, a.v[i]);
}
INLINE w32 w32_all(int n)
{
    int16x8_t v = vdupq_n_s16((int16_t)n);
    return (w32){{v, v, v, v}};
}
INLINE int16x4_t w32_quarter(float32x4_t x) /* NaN becomes far below 0, as on other processors */
{
    return vqmovn_s32(vbslq_s32(vceqq_f32(x, x), vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN)));
}
INLINE w32 w32_round(v16 x, v16 y)
{
    return (w32){{vcombine_s16(w32_quarter(x.a), w32_quarter(x.b)), vcombine_s16(w32_quarter(x.c), w32_quarter(x.d)),
                  vcombine_s16(w32_quarter(y.a), w32_quarter(y.b)), vcombine_s16(w32_quarter(y.c), w32_quarter(y.d))}};
}
INLINE uint16x8_t w32_high(uint16x8_t a, uint16x8_t b) /* upper halves of products */
{
    uint32x4_t low = vmull_u16(vget_low_u16(a), vget_low_u16(b)), high = vmull_high_u16(a, b);
    return vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}
INLINE w32 w32_weight(w32 n) /* kv_weight of rounded steps */
{
    UNROLLED (i, 4) {
        uint16x8_t x = vreinterpretq_u16_s16(n.v[i]), f = vshlq_n_u16(x, 16 - WEIGHT_BITS);
        uint16x8_t p = vsubq_u16(vdupq_n_u16(WEIGHT_B), w32_high(f, vdupq_n_u16(WEIGHT_C)));
        p = vsubq_u16(vdupq_n_u16(WEIGHT_A), w32_high(f, p));
        p = vshlq_u16(p, vnegq_s16(vreinterpretq_s16_u16(vshrq_n_u16(x, WEIGHT_BITS))));
        n.v[i] = vreinterpretq_s16_u16(p);
    }
    return n;
}
INLINE void w32_half_bytes(uint8_t *to, w32 a, w32 by)
{
    const int16x8_t shift = vdupq_n_s16(1 << 8);
    UNROLLED (i, 4) vst1_u8(to + 8 * i, vqmovun_s16(vqrdmulhq_s16(vqrdmulhq_s16(a.v[i], by.v[i]), shift)));
}
INLINE void w32_store_bytes(uint8_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_byte of 64 keys */
{
    w32_half_bytes(to, a, by_a);
    w32_half_bytes(to + 32, b, by_b);
}
INLINE void w32_store_words(int16_t *to, w32 a, w32 b, w32 by_a, w32 by_b) /* kv_weight_word of 64 keys */
{
    UNROLLED (i, 4) {
        vst1q_s16(to + 8 * i, vqrdmulhq_s16(a.v[i], by_a.v[i]));
        vst1q_s16(to + 32 + 8 * i, vqrdmulhq_s16(b.v[i], by_b.v[i]));
    }
}
typedef int32x4_t w32_sum; /* of products */
INLINE w32_sum w32_dot(w32 a, w32 b, w32 with_a, w32 with_b)
{
    w32_sum s = vdupq_n_s32(0);
    UNROLLED (i, 4) {
        s = vmlal_s16(s, vget_low_s16(a.v[i]), vget_low_s16(with_a.v[i]));
        s = vmlal_high_s16(s, a.v[i], with_a.v[i]);
        s = vmlal_s16(s, vget_low_s16(b.v[i]), vget_low_s16(with_b.v[i]));
        s = vmlal_high_s16(s, b.v[i], with_b.v[i]);
    }
    return s;
}
INLINE s4 w32_fold4(w32_sum a) { return a; }

/* dots[line][key] of 64 keys. */
INLINE void code_dots(int bits, int lines, const key_tile *t, const uint8_t *q, const uint8_t *ahead, code_due *due,
                      float *dots)
{
    const kv_codes *f = t->f;
    const int64_t stride = (int64_t)kv_query_bytes(f);
    for (int w = 0; w < PAGE_TOKENS; w += LANES) { /* sixteen keys */
        due_turn(bits, due);
        const uint8_t *at = t->code + 4 * w;
        for (int64_t b = 0, g = 0; b < f->blocks; b++) {
            s4 a[CODE_LINES][4];
            UNROLLED (l, lines) {
                int32_t start = bits == 8 ? 128 * (int32_t)query_sum(f, q + l * stride, b) : 0;
                UNROLLED (i, 4) a[l][i] = vdupq_n_s32(start);
            }
            for (int64_t end = g + kv_block_codes(f, b) / 4; g < end; g += 8 / bits, at += PAGE_TOKENS * 4) {
                uint8x16_t k[4];
                if (w % 32 == 0) prefetch_near(ahead + (at - t->code) / 2);
                UNROLLED (i, 4) k[i] = CODE_LOAD(at + 16 * i);
                UNROLLED (l, lines) {
                    b16 x = code_word(q + l * stride + 4 * g);
                    UNROLLED (i, 4) {
                        b16 low = bits == 8 ? CODE_LESS(k[i]) : vreinterpretq_s8_u8(CODE_LOW(k[i]));
                        a[l][i] = s4_dot(a[l][i], low, x, 0);
                    }
                }
                UNROLL for (int l = 0; bits == 4 && l < lines; l++)
                {
                    b16 x = code_word(q + l * stride + 4 * g + 4);
                    UNROLLED (i, 4) a[l][i] = s4_dot(a[l][i], vreinterpretq_s8_u8(CODE_HIGH(k[i])), x, 0);
                }
            }
            v16 scale = v16_load(t->scale + b * PAGE_TOKENS + w), base = v16_load(t->base + b * PAGE_TOKENS + w);
            UNROLLED (l, lines) {
                float *to = dots + l * PAGE_TOKENS + w;
                v16 s = v16_fma(base, v16_all(query_sum(f, q + l * stride, b)), b ? v16_load(to) : v16_zero());
                v16_store(to, v16_fma(s4_floats(a[l]), scale, s));
            }
        }
    }
    due_tops(lines, dots, due);
}

/* acc[line][element] = acc * keep + weights times codes [+ base] for `wide` vectors of elements; lines from `l0` on. */
INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const uint8_t *ahead,
                        code_into to)
{
    const code_batch *w = to.w;
    for (int i = 0; i < 2 * wide; i++) { /* eight elements */
        const uint8_t *at = code + (bits == 8 ? 32 * i : 64 * (i / 4) + 32 * (i % 2));
        s4 a[CODE_LINES][2], all[2] = {s4_zero(), s4_zero()};
        UNROLLED (l, lines) a[l][0] = a[l][1] = s4_zero();
        for (int g = 0; g < CODE_GROUPS; g += 4) {
            b16 p[CODE_LINES];
            if (i % 4 == 0)
                UNROLLED (h, 4) prefetch_near(ahead + (at - code + h * stride) / 2);
            UNROLLED (l, lines) p[l] = CODE_LESS(CODE_LOAD(w->code[to.l0 + l] + 4 * g));
            UNROLL for (int j = 0; j < 4; j++, at += stride)
            {
                UNROLLED (h, 2) {
                    uint8x16_t v = CODE_LOAD(at + 16 * h);
                    if (bits == 4) v = i / 2 % 2 ? CODE_HIGH(v) : CODE_LOW(v);
                    all[h] = s4_add_bytes(all[h], vreinterpretq_s8_u8(v));
                    UNROLLED (l, lines) a[l][h] = s4_dot(a[l][h], vreinterpretq_s8_u8(v), p[l], j);
                }
            }
        }
        UNROLLED (l, lines) {
            UNROLLED (h, 2) {
                float *at_acc = to.acc + l * to.stride + i * 8 + 4 * h;
                v4 sum = vcvtq_f32_s32(vaddq_s32(a[l][h], vshlq_n_s32(all[h], 7)));
                v4 s = vfmaq_n_f32(vmulq_n_f32(v4_load(at_acc), w->keep[to.l0 + l]), sum, w->scale[to.l0 + l]);
                v4_store(at_acc, bits == 4 ? v4_add(s, vdupq_n_f32(w->base[to.l0 + l])) : s);
            }
        }
    }
}
