/* v_attn_codes_neon.h - the two products of v_attn_codes.h on NEON, whose multiplier takes signed bytes: codes of keys, and weights, of eight
 * bits are taken less 128, and sums start from 128 times the sum of what they are multiplied by. */
#ifndef CPU_V_ATTN_CODES_NEON_H
#define CPU_V_ATTN_CODES_NEON_H
#include "cpu/kv_codes.h"
#include "cpu/v16.h"

#define CODE_LOAD(p) vld1q_u8(p)
#define CODE_LOW(v)  vandq_u8(v, vdupq_n_u8(15))
#define CODE_HIGH(v) vshrq_n_u8(v, 4)
#define CODE_LESS(v) vreinterpretq_s8_u8(veorq_u8(v, vdupq_n_u8(128)))

INLINE b16 code_word(const void *codes) /* four codes, everywhere */
{
    return vreinterpretq_s8_s32(vdupq_n_s32(code_four(codes)));
}

/* The sum of n codes, a multiple of four. */
INLINE int32_t code_sum(const int8_t *code, int n)
{
    s4 sum = s4_zero();
    int i = 0, words = 0;
    for (; i + 16 <= n; i += 16) sum = s4_add_bytes(sum, vld1q_s8(code + i));
    for (; i < n; i++) words += code[i];
    return s4_fold(sum) + words;
}

/* dots[line][key] of 64 keys. */
INLINE void code_dots(int bits, int lines, const code_tile *t, const kv_query *q, float *dots)
{
    const kv_codes *f = t->f;
    for (int w = 0; w < PAGE_TOKENS; w += LANES) { /* sixteen keys */
        const uint8_t *at = t->code + 4 * w;
        for (int64_t b = 0, g = 0; b < f->blocks; b++) {
            s4 a[CODE_LINES][4];
            UNROLL for (int l = 0; l < lines; l++)
            {
                int32_t start = bits == 8 ? 128 * code_sum(q[l].code + 4 * g, kv_block_codes(f, b)) : 0;
                UNROLL for (int i = 0; i < 4; i++) a[l][i] = vdupq_n_s32(start);
            }
            for (int64_t end = g + kv_block_codes(f, b) / 4; g < end; g += 8 / bits, at += PAGE_TOKENS * 4) {
                uint8x16_t k[4];
                UNROLL for (int i = 0; i < 4; i++) k[i] = CODE_LOAD(at + 16 * i);
                UNROLL for (int l = 0; l < lines; l++)
                {
                    b16 x = code_word(q[l].code + 4 * g);
                    UNROLL for (int i = 0; i < 4; i++)
                    {
                        b16 low = bits == 8 ? CODE_LESS(k[i]) : vreinterpretq_s8_u8(CODE_LOW(k[i]));
                        a[l][i] = s4_dot(a[l][i], low, x, 0);
                    }
                }
                UNROLL for (int l = 0; bits == 4 && l < lines; l++)
                {
                    b16 x = code_word(q[l].code + 4 * g + 4);
                    UNROLL for (int i = 0; i < 4; i++)
                        a[l][i] = s4_dot(a[l][i], vreinterpretq_s8_u8(CODE_HIGH(k[i])), x, 0);
                }
            }
            v16 scale = v16_load(t->scale + b * PAGE_TOKENS + w), base = v16_load(t->base + b * PAGE_TOKENS + w);
            UNROLL for (int l = 0; l < lines; l++)
            {
                float *to = dots + l * PAGE_TOKENS + w;
                v16 s = b ? v16_load(to) : v16_zero();
                s = v16_fma(s4_floats(a[l]), v16_mul(scale, v16_all(q[l].scale[b])), s);
                s = v16_fma(base, v16_all(q[l].sum[b]), s);
                v16_store(to, s);
            }
        }
    }
}

/* acc[line][element] = acc * keep + weights times codes [+ base] for `wide` vectors of elements; lines from `l0` on. */
INLINE void code_values(int bits, int lines, int wide, const uint8_t *code, int64_t stride, const code_weights *w,
                        int l0, const float *keep, float *acc, int64_t acc_stride)
{
    for (int i = 0; i < 2 * wide; i++) { /* eight elements */
        const uint8_t *at = code + (bits == 8 ? 32 * i : 64 * (i / 4) + 32 * (i % 2));
        s4 a[CODE_LINES][2], all[2] = {s4_zero(), s4_zero()};
        UNROLL for (int l = 0; l < lines; l++) a[l][0] = a[l][1] = s4_zero();
        for (int g = 0; g < CODE_GROUPS; g += 4) {
            b16 p[CODE_LINES];
            UNROLL for (int l = 0; l < lines; l++) p[l] = CODE_LESS(CODE_LOAD(w->code[l0 + l] + 4 * g));
            UNROLL for (int j = 0; j < 4; j++, at += stride)
            {
                UNROLL for (int h = 0; h < 2; h++)
                {
                    uint8x16_t v = CODE_LOAD(at + 16 * h);
                    if (bits == 4) v = i / 2 % 2 ? CODE_HIGH(v) : CODE_LOW(v);
                    all[h] = s4_add_bytes(all[h], vreinterpretq_s8_u8(v));
                    UNROLL for (int l = 0; l < lines; l++) a[l][h] = s4_dot(a[l][h], vreinterpretq_s8_u8(v), p[l], j);
                }
            }
        }
        UNROLL for (int l = 0; l < lines; l++)
        {
            UNROLL for (int h = 0; h < 2; h++)
            {
                float *to = acc + l * acc_stride + i * 8 + 4 * h;
                v4 sum = vcvtq_f32_s32(vaddq_s32(a[l][h], vshlq_n_s32(all[h], 7)));
                v4 s = vfmaq_n_f32(vmulq_n_f32(v4_load(to), keep[l0 + l]), sum, w->scale[l0 + l]);
                v4_store(to, bits == 4 ? v4_add(s, vdupq_n_f32(w->base[l0 + l])) : s);
            }
        }
    }
}

#endif
