/* v_qtile_neon.h - the body of v_qtile.h on NEON: registers of four rows x four k, 32 of them.
 *
 * Bytes are multiplied signed times signed, each word by the same four activations, which are an element of a register: rows of a tile
 * lie side by side, so one load brings four of them. Codes of eight bits are taken less 128, levels of tables as they are, and sums start
 * with what that and the zero leave out, times the sum of the block's activations: the same whole number. */
#ifndef CPU_V_QTILE_NEON_H
#define CPU_V_QTILE_NEON_H
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"

/* Rows 4 v … 4 v + 3 of the panel: scales of block b, bases, sub-scales and minima of two blocks side by side. */
INLINE float32x4_t q_f16(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
INLINE float32x4_t q_base(const uint8_t *at, int v) { return vreg_load_f16(at + 8 * v); }
INLINE float32x4_t q_scale(qkind k, const uint8_t *tail, int tiles, int b, int v)
{
    if (q_picks(k) && k.bits == 4) { /* the top byte of a word as that of an f16 */
        uint32x4_t word = vld1q_u32((const void *)(tail + b * PANEL_LINE + 16 * v));
        return q_f16(vmovn_u32(vshlq_n_u32(vshrq_n_u32(word, 24), 7)));
    }
    tail += q_pick_lines(k, tiles) * PANEL_LINE;
    const int bytes = k.scale == PANEL_F32 ? 4 : k.scale == PANEL_F16 ? 2 : 1;
    const uint8_t *at = tail + (b * PANEL_ROWS + 4 * v) * bytes;
    if (k.scale == PANEL_F32) return vld1q_f32((const void *)at);
    if (k.scale == PANEL_F16) return vreg_load_f16(at);
    uint32_t four;
    memcpy(&four, at, 4);
    uint16x8_t wide = vmovl_u8(vcreate_u8(four));
    if (k.scale == PANEL_E5M3) return q_f16(vget_low_u16(vshlq_n_u16(wide, 7)));
    uint32x4_t e = vmovl_u16(vget_low_u16(wide));
    uint32x4_t low = vshlq_u32(vdupq_n_u32(1 << 21), vreinterpretq_s32_u32(e)); /* 2^-128, 2^-127 */
    uint32x4_t high = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), low, high));
}
INLINE int16x8_t q_subs(qkind k, const uint8_t *at, int v)
{
    uint8x8_t byte = vld1_u8(at + 8 * v);
    if (k.scale == PANEL_SUB4) return vreinterpretq_s16_u16(vmovl_u8(vand_u8(byte, vdup_n_u8(15))));
    return vmovl_s8(vreinterpret_s8_u8(byte));
}
INLINE int16x8_t q_minima(qkind k, const uint8_t *at, int v)
{
    if (k.scale == PANEL_SUB8) at += PANEL_ROWS * (k.span / k.block);
    uint8x8_t byte = vld1_u8(at + 8 * v);
    return vreinterpretq_s16_u16(vmovl_u8(k.scale == PANEL_SUB4 ? vshr_n_u8(byte, 4) : byte));
}
/* One of the two blocks, as words. */
INLINE int32x4_t q_one(int16x8_t pair, int b)
{
    int32x4_t p = vreinterpretq_s32_s16(pair);
    return vshrq_n_s32(b % 2 ? p : vshlq_n_s32(p, 16), 16);
}

/* Levels of codes that are looked up: a table of 16 as it is, or several tables one after the other. */
typedef struct qtable {
    uint8x16x4_t v[2];
} qtable;
INLINE qtable q_table(qkind k, const qjob *q)
{
    qtable t;
    const uint8_t *level = (const uint8_t *)q->level;
    if (k.code == PANEL_LOOK) t.v[0].val[0] = vld1q_u8(level);
    if (!q_picks(k)) return t;
    UNROLL for (int i = 0; i < 4; i++)
    {
        t.v[0].val[i] = vld1q_u8(level + 16 * i);
        if (k.bits > 2) t.v[1].val[i] = vld1q_u8(level + 64 + 16 * i);
    }
    return t;
}

/* The words of picks for tile t of a span, moved so that its first pick is lowest. */
INLINE uint32x4_t q_words(qkind k, const uint8_t *tail, int t, int v)
{
    if (!q_picks(k)) return vdupq_n_u32(0);
    uint32x4_t word = vld1q_u32((const void *)(tail + (k.code == PANEL_PICK8 ? t : t / 2) * PANEL_LINE + 16 * v));
    return k.code == PANEL_PICK8 ? word : vshlq_u32(word, vdupq_n_s32(-(t % 2 * (k.bits == 4 ? 12 : 16))));
}

/* Group vector g of a tile as signed bytes: the code, of 8 bits less 128; or the level itself of tables. */
INLINE b16 q_look(qkind k, const qtable *t, uint32x4_t words, int g, qline w)
{
    const uint8x16_t row = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    if (k.code == PANEL_LOOK) return vreinterpretq_s8_u8(vqtbl1q_u8(t->v[0].val[0], w));
    if (k.code == PANEL_CODE) return vreinterpretq_s8_u8(k.bits == 8 ? veorq_u8(w, vdupq_n_u8(128)) : w);
    const int j = k.code == PANEL_PICK8 ? g / 2 : g / 4; /* pick */
    const int at = j * (k.bits == 4 ? 3 : 4) - k.bits;   /* of its lowest bit in the word, less where it goes */
    uint8x16_t pick;
    if (k.bits == 4) {
        pick = vreinterpretq_u8_u32(vshlq_u32(words, vdupq_n_s32(-at)));
        pick = Q_AND(vqtbl1q_u8(pick, row), 0x70);
    } else {
        pick = vqtbl1q_u8(vreinterpretq_u8_u32(words), vaddq_u8(row, vdupq_n_u8((uint8_t)(j / 2))));
        pick = Q_AND(j % 2 ? Q_RIGHT(pick, 4 - k.bits) : Q_LEFT(pick, k.bits), 15 << k.bits);
    }
    w = vorrq_u8(w, pick);
    uint8x16_t level = vqtbl4q_u8(t->v[0], w);
    if (k.bits > 2) level = vqtbx4q_u8(level, t->v[1], vsubq_u8(w, vdupq_n_u8(64)));
    return vreinterpretq_s8_u8(level);
}

/* What is left out of the bytes that q_look gives, times minus the sum of a block's activations, which `less` and `parts` have. */
INLINE int32_t q_start(qkind k, const int32_t *less, const int16_t *parts, int b)
{
    const int32_t out = k.code != PANEL_CODE ? 0 : -k.zero - (k.bits == 8 ? 128 : 0);
    return out == 0 ? 0 : out * (!q_two(k) && k.block > 16 ? *less : k.block == 32 ? parts[b] : parts[2 + b]);
}

/* Outputs 4 v … 4 v + 3 of row m. */
static __attribute__((noinline)) void q_store(const qjob *q, float32x4_t f, int m, int v)
{
    int n = q->n_out - 4 * v;
    if (q->bias) f = vaddq_f32(f, v4_load_part(q->bias + 4 * v, n));
    v4_store_part(q->y + m * q->ldy + 4 * v, f, n);
}

/* mr rows of activations against rows 4 v0 … 4 (v0 + quads) - 1 of a panel. */
INLINE void q_pass(qkind k, int quads, int mr, const qjob *q, int v0, bool fetch)
{
    const bool two = q_two(k);
    const int block = q_block(k), blocks = PANEL_K / block, width = q_width(k.bits), steps = 16 / width / blocks;
    const int code_lines = q_code_lines(k), tail_lines = q->f->tail_lines;
    const uint8_t *panel = q->panel;
    const int8_t *code = q->x.code;
    const float *scale = q->x.scale, *total = q->x.scaled_sum;
    const int32_t *less = q->x.neg_sum;
    const int16_t *parts = q->x.neg_subsums;
    const float factor = q->f->factor;
    const qtable table = q_table(k, q);
    float32x4_t f[4][ACT_ROWS];
    UNROLL for (int v = 0; v < quads; v++) { UNROLL for (int m = 0; m < mr; m++) f[v][m] = vdupq_n_f32(0); }
    for (int64_t s = 0; s < q->k_tiles;) {
        int64_t left = q->k_tiles - s;
        const int tiles = k.span == PANEL_K ? 1 : left < k.span / PANEL_K ? (int)left : k.span / PANEL_K;
        const uint8_t *tail = panel + tiles * code_lines * PANEL_LINE;
        for (int t = 0; t < tiles; t++, s++, panel += code_lines * PANEL_LINE) {
            const uint8_t *subs = tail + (k.base ? 64 : 32) + t * blocks * PANEL_ROWS;
            qline kept[4];
            uint32x4_t words[4];
            int32x4_t whole[4][ACT_ROWS];
            if (fetch) q_fetch(q, s);
            UNROLL for (int v = 0; v < quads; v++)
            {
                kept[v] = Q_ZERO();
                words[v] = q_words(k, tail, t, v0 + v);
                UNROLL for (int m = 0; m < mr; m++) whole[v][m] = s4_zero();
            }
            UNROLL for (int b = 0; b < blocks; b++)
            {
                int32x4_t a[4][ACT_ROWS];
                UNROLL for (int m = 0; m < mr; m++)
                {
                    int32x4_t start = vdupq_n_s32(q_start(k, less + m, parts + m * ACT_SUBSUMS, b));
                    UNROLL for (int v = 0; v < quads; v++) a[v][m] = start;
                }
                UNROLL for (int j = 0; j < steps; j++)
                {
                    UNROLL for (int v = 0; v < quads; v++)
                    {
                        qline w[4];
                        q_unpack(k.bits, panel + 16 * (v0 + v), b * steps + j, &kept[v], w);
                        UNROLL for (int i = 0; i < width; i++)
                        {
                            b16 level = q_look(k, &table, words[v], (b * steps + j) * width + i, w[i]);
                            UNROLL for (int m = 0; m < mr; m++)
                            {
                                int word = (j * width + i) * mr + m;
                                a[v][m] = s4_dot(a[v][m], level, vld1q_s8(code + word / 4 * 16), word % 4);
                            }
                        }
                    }
                }
                UNROLL for (int v = 0; v < quads; v++)
                {
                    if (two) {
                        int32x4_t by = q_one(q_subs(k, subs + b / 2 * 2 * PANEL_ROWS, v0 + v), b);
                        UNROLL for (int m = 0; m < mr; m++) whole[v][m] = vmlaq_s32(whole[v][m], a[v][m], by);
                        continue;
                    }
                    const int n = (t * PANEL_K + b * block) / k.block;
                    float32x4_t dw = q_scale(k, tail, tiles, n, v0 + v);
                    if (k.scale == PANEL_E5M3) dw = vmulq_n_f32(dw, factor);
                    UNROLL for (int m = 0; m < mr; m++)
                        f[v][m] = vfmaq_f32(f[v][m], vcvtq_f32_s32(a[v][m]), vmulq_n_f32(dw, scale[m]));
                    if (!k.base) continue;
                    float32x4_t mw = q_base(tail + (k.span / k.block + n) * 2 * PANEL_ROWS, v0 + v);
                    UNROLL for (int m = 0; m < mr; m++) f[v][m] = vfmaq_n_f32(f[v][m], mw, total[m]);
                }
                code += block * mr;
                if ((b + 1) * block % q_act(k) == 0 && !two) {
                    scale += mr;
                    total += mr;
                    less += mr;
                }
            }
            if (two) {
                UNROLL for (int v = 0; v < quads; v++)
                {
                    const float32x4_t d = vmulq_n_f32(q_base(tail, v0 + v), factor);
                    int16x4_t even[2], odd[2];
                    if (k.base) UNROLL for (int b = 0; b < blocks; b += 2)
                        {
                            int16x8_t pair = q_minima(k, subs + b * PANEL_ROWS, v0 + v);
                            even[b / 2] = vget_low_s16(vuzp1q_s16(pair, pair));
                            odd[b / 2] = vget_low_s16(vuzp2q_s16(pair, pair));
                        }
                    UNROLL for (int m = 0; m < mr; m++)
                    {
                        float32x4_t sum = vcvtq_f32_s32(whole[v][m]);
                        int32x4_t least = s4_zero();
                        if (!k.base) {
                            f[v][m] = vfmaq_f32(f[v][m], sum, vmulq_n_f32(d, scale[m]));
                            continue;
                        }
                        UNROLL for (int b = 0; b < blocks; b += 2)
                        {
                            const int16_t *part = parts + m * ACT_SUBSUMS + (k.block == 32 ? 0 : 2) + b;
                            least = vmlal_n_s16(vmlal_n_s16(least, even[b / 2], part[0]), odd[b / 2], part[1]);
                        }
                        sum = vfmaq_f32(vmulq_f32(d, sum), q_base(tail + 32, v0 + v), vcvtq_f32_s32(least));
                        f[v][m] = vfmaq_n_f32(f[v][m], sum, scale[m]);
                    }
                }
                scale += mr;
            }
            if (q_act(k) == 64) parts += mr * ACT_SUBSUMS;
        }
        panel += tail_lines * PANEL_LINE;
    }
    UNROLL for (int v = 0; v < quads; v++) { UNROLL for (int m = 0; m < mr; m++) q_store(q, f[v][m], m, v0 + v); }
}

/* Up to three rows take a whole panel, more of them one half after the other: so the sums stay in registers. */
INLINE void qtile(qkind k, int np, int mr, const qjob *q)
{
    (void)np;
    if (mr <= 3) {
        q_pass(k, 4, mr, q, 0, true);
        return;
    }
    q_pass(k, 2, mr, q, 0, true);
    q_pass(k, 2, mr, q, 2, false);
}

#endif
