/* v_qtile_neon.h - the body of v_qtile.h on NEON: registers of four rows x four k, 32 of them.
 *
 * Bytes are multiplied signed times signed, each word by the same four activations, which are an element of a
 * register: rows of a tile are adjacent, so one load brings four of them. 128 is subtracted from codes of eight bits,
 * levels of tables are signed; sums start with the zero and these 128 times the sum of the block's activations, which
 * gives the same integer. */
#pragma once
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
    UNROLLED (i, 4) {
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
    const int at = j * (k.bits == 4 ? 3 : 4) - k.bits;   /* shift from its lowest bit in the word to its place */
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

/* The part that the bytes of q_look lack (zero, 128), times minus the sum of a block's activations. */
INLINE int32_t q_start(qkind k, const int32_t *neg_sum, const int16_t *neg_subsums, int b)
{
    const int32_t out = k.code != PANEL_CODE ? 0 : -k.zero - (k.bits == 8 ? 128 : 0);
    return out == 0 ? 0
                    : out * (!q_two(k) && k.block > 16 ? *neg_sum
                             : k.block == 32           ? neg_subsums[b]
                                                       : neg_subsums[2 + b]);
}

/* Outputs 4 v … 4 v + 3 of row m. */
static __attribute__((noinline)) void q_store(const qjob *q, float32x4_t f, int m, int v)
{
    int n = q->n_out - 4 * v;
    if (q->bias) f = vaddq_f32(f, v4_load_part(q->bias + 4 * v, n));
    v4_store_part(q->y + m * q->ldy + 4 * v, f, n);
}

/* A body as compiled: mr rows of activations against rows 4 v0 … 4 (v0 + quads) - 1 of a panel. */
typedef struct qshape {
    qkind k;
    int quads, mr, v0;
    fetch_way way;
} qshape;

/* The registers of a body, by quad: four rows of the panel. */
typedef struct qstate {
    const qjob *q;
    act_part x; /* activations of this block */
    qtable table;
    float factor;
    uint32x4_t words[4];                          /* picks */
    qline kept[4];                                /* state of q_unpack */
    int32x4_t a[4][ACT_ROWS], whole[4][ACT_ROWS]; /* sums of a block; two levels: of the tile, times sub-scales */
    float32x4_t f[4][ACT_ROWS];                   /* results */
} qstate;

INLINE void q_start_tile(qshape z, qplace at, qstate *s)
{
    UNROLLED (v, z.quads) {
        s->kept[v] = Q_ZERO();
        s->words[v] = q_words(z.k, at.tail, at.t, z.v0 + v);
        UNROLLED (m, z.mr) s->whole[v][m] = s4_zero();
    }
}

INLINE void q_start_block(qshape z, qstate *s, int b)
{
    UNROLLED (m, z.mr) {
        int32x4_t start = vdupq_n_s32(q_start(z.k, s->x.neg_sum + m, q_subsums_of(z.k, s->x.neg_subsums, m), b));
        UNROLLED (v, z.quads) s->a[v][m] = start;
    }
}

/* Step j of the tile, of one quad. */
INLINE void q_unpack_step(qshape z, qplace at, qstate *s, int v, int j, qline w[4])
{
    q_unpack(z.k.bits, at.lines + 16 * (z.v0 + v), j, &s->kept[v], w);
}

/* FP8: a level (e4m3.h) is a digit of seven bits and a sign, at one of four places, 0, 4, 8 or 12 bits up. */
INLINE void q_multiply_e4m3(qshape z, qstate *s, int v, int of_block, qline w)
{
    const uint8x16_t eights = {8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30},
                     small = {0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0}, low = Q_AND(w, 15);
    uint8x16_t digit = vqtbl1q_u8(eights, low);
    digit = vbslq_u8(vtstq_u8(w, vdupq_n_u8(16)), Q_LEFT(digit, 2), digit);
    digit = vbslq_u8(vceqzq_u8(Q_AND(w, 0x78)), vqtbl1q_u8(small, low), digit);
    int8x16_t level = vreinterpretq_s8_u8(digit);
    level = vbslq_s8(vtstq_u8(w, vdupq_n_u8(128)), vnegq_s8(level), level);
    UNROLLED (i, 4) {
        const int8x16_t here = vandq_s8(level, vreinterpretq_s8_u8(vceqq_u8(Q_AND(w, 0x60), vdupq_n_u8(i << 5))));
        UNROLLED (m, z.mr) {
            const int word = of_block * z.mr + m;
            const int32x4_t sum = s4_dot(s4_zero(), here, vld1q_s8(s->x.code + word / 4 * 16), word % 4);
            s->a[v][m] = vaddq_s32(s->a[v][m], vshlq_n_s32(sum, 4 * i));
        }
    }
}

/* Step j of a tile, step `of_block` of its block, of one quad: looks levels up, and multiplies. */
INLINE void q_multiply_step(qshape z, qstate *s, int v, int j, int of_block, const qline w[4])
{
    const int width = q_width(z.k.bits);
    if (z.k.code == PANEL_E4M3) {
        q_multiply_e4m3(z, s, v, of_block, w[0]);
        return;
    }
    UNROLLED (i, width) {
        b16 level = q_look(z.k, &s->table, s->words[v], j * width + i, w[i]);
        UNROLLED (m, z.mr) {
            int word = (of_block * width + i) * z.mr + m;
            s->a[v][m] = s4_dot(s->a[v][m], level, vld1q_s8(s->x.code + word / 4 * 16), word % 4);
        }
    }
}

INLINE void q_scale_block(qshape z, qplace at, qstate *s, int b)
{
    const qkind k = z.k;
    const int block = q_block(k), n = (at.t * PANEL_K + b * block) / k.block;
    UNROLLED (v, z.quads) {
        if (q_two(k)) {
            int32x4_t by = q_one(q_subs(k, at.subs + b / 2 * 2 * PANEL_ROWS, z.v0 + v), b);
            UNROLLED (m, z.mr) s->whole[v][m] = vmlaq_s32(s->whole[v][m], s->a[v][m], by);
            continue;
        }
        float32x4_t dw = q_scale(k, at.tail, at.tiles, n, z.v0 + v);
        if (k.scale == PANEL_E5M3 || k.code == PANEL_E4M3) dw = vmulq_n_f32(dw, s->factor);
        UNROLLED (m, z.mr)
            s->f[v][m] = vfmaq_f32(s->f[v][m], vcvtq_f32_s32(s->a[v][m]), vmulq_n_f32(dw, s->x.scale[m]));
        if (!k.base) continue;
        float32x4_t mw = q_base(at.tail + (k.span / k.block + n) * 2 * PANEL_ROWS, z.v0 + v);
        if (k.base == PANEL_ZERO) mw = vmulq_f32(mw, dw);
        UNROLLED (m, z.mr) s->f[v][m] = vfmaq_n_f32(s->f[v][m], mw, s->x.scaled_sum[m]);
    }
    s->x.code += block * z.mr;
    if ((b + 1) * block % q_act(k) || q_two(k)) return;
    s->x.scale += z.mr;
    s->x.scaled_sum += z.mr;
    s->x.neg_sum += z.mr;
}

INLINE void q_scale_tile(qshape z, qplace at, qstate *s)
{
    const qkind k = z.k;
    const int pairs = PANEL_K / q_block(k) / 2;
    UNROLLED (v, z.quads) {
        const float32x4_t d = vmulq_n_f32(q_base(at.tail, z.v0 + v), s->factor);
        int16x4_t even[2], odd[2];
        if (k.base)
            UNROLLED (p, pairs) {
                int16x8_t pair = q_minima(k, at.subs + p * 2 * PANEL_ROWS, z.v0 + v);
                even[p] = vget_low_s16(vuzp1q_s16(pair, pair));
                odd[p] = vget_low_s16(vuzp2q_s16(pair, pair));
            }
        UNROLLED (m, z.mr) {
            float32x4_t sum = vcvtq_f32_s32(s->whole[v][m]);
            int32x4_t minimum = s4_zero();
            if (!k.base) {
                s->f[v][m] = vfmaq_f32(s->f[v][m], sum, vmulq_n_f32(d, s->x.scale[m]));
                continue;
            }
            UNROLLED (p, pairs) {
                const int16_t *part = s->x.neg_subsums + m * ACT_SUBSUMS + (k.block == 32 ? 0 : 2) + 2 * p;
                minimum = vmlal_n_s16(vmlal_n_s16(minimum, even[p], part[0]), odd[p], part[1]);
            }
            sum = vfmaq_f32(vmulq_f32(d, sum), q_base(at.tail + 32, z.v0 + v), vcvtq_f32_s32(minimum));
            s->f[v][m] = vfmaq_n_f32(s->f[v][m], sum, s->x.scale[m]);
        }
    }
    s->x.scale += z.mr;
}

INLINE void q_pass(qshape z, const qjob *q, bool fetch)
{
    const qkind k = z.k;
    const int blocks = PANEL_K / q_block(k), steps = 16 / q_width(k.bits) / blocks;
    const int code_bytes = q_code_lines(k) * PANEL_LINE, tail_bytes = q->f->tail_lines * PANEL_LINE;
    qplace at = {.lines = q->panel};
    qstate s = {.q = q, .x = q->x, .table = q_table(k, q), .factor = q->f->factor};
    UNROLLED (v, z.quads)
        UNROLLED (m, z.mr) s.f[v][m] = vdupq_n_f32(0);
    for (int64_t tile = 0; tile < q->k_tiles; at.lines += tail_bytes) {
        at = q_next_span(k, at, q->k_tiles - tile);
        for (at.t = 0; at.t < at.tiles; at.t++, tile++, at.lines += code_bytes) {
            at.subs = q_subs_at(k, at);
            if (fetch) q_fetch(z.way, q, tile);
            q_start_tile(z, at, &s);
            UNROLLED (b, blocks) {
                q_start_block(z, &s, b);
                UNROLLED (j, steps)
                    UNROLLED (v, z.quads) {
                        qline w[4];
                        q_unpack_step(z, at, &s, v, b * steps + j, w);
                        q_multiply_step(z, &s, v, b * steps + j, j, w);
                    }
                q_scale_block(z, at, &s, b);
            }
            if (q_two(k)) q_scale_tile(z, at, &s);
            if (q_act(k) == 64) s.x.neg_subsums += z.mr * ACT_SUBSUMS;
        }
    }
    UNROLLED (v, z.quads)
        UNROLLED (m, z.mr) q_store(q, s.f[v][m], m, z.v0 + v);
}

/* Up to three rows take a whole panel, more of them one half after the other: so sums stay in registers. */
INLINE void qtile(qkind k, int np, int mr, fetch_way way, const qjob *q)
{
    (void)np;
    if (mr <= 3) {
        q_pass((qshape){k, 4, mr, 0, way}, q, true);
        return;
    }
    q_pass((qshape){k, 2, mr, 0, way}, q, true);
    q_pass((qshape){k, 2, mr, 2, way}, q, false);
}
