/* v_qtile_avx2.h - the body of v_qtile.h on AVX2: registers of eight rows x four k, sixteen of them, so a tile takes
 * one half of a panel after the other, and a few rows at once. */
#pragma once
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"
#include "cpu/simd/v_qpick.h"

/* As on AVX-512, for the 8 rows of half h of the panel. */
INLINE __m256i q_widen8(const uint8_t *at, bool is_signed)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)at);
    return is_signed ? _mm256_cvtepi8_epi16(v) : _mm256_cvtepu8_epi16(v);
}
INLINE __m256 q_base(const uint8_t *at, int h)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(at + 16 * h)));
}
INLINE __m256 q_scale(qkind k, const uint8_t *tail, int tiles, int b, int h)
{
    if (q_picks(k) && k.bits == 4) { /* the top byte of a word as that of an f16 */
        __m256i word = _mm256_loadu_si256((const __m256i *)(const void *)(tail + b * PANEL_LINE + 32 * h));
        word = _mm256_slli_epi32(_mm256_srli_epi32(word, 24), 7);
        return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(word), _mm256_extracti128_si256(word, 1)));
    }
    tail += q_pick_lines(k, tiles) * PANEL_LINE;
    const int bytes = k.scale == PANEL_F32 ? 4 : k.scale == PANEL_F16 ? 2 : 1;
    const uint8_t *at = tail + b * PANEL_ROWS * bytes;
    if (k.scale == PANEL_F32) return _mm256_loadu_ps((const float *)(const void *)(at + 32 * h));
    if (k.scale == PANEL_F16) return q_base(at, h);
    __m128i byte = _mm_loadl_epi64((const __m128i *)(const void *)(at + 8 * h));
    if (k.scale == PANEL_E5M3) return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(byte), 7));
    __m256i e = _mm256_cvtepu8_epi32(byte), low = _mm256_sllv_epi32(_mm256_set1_epi32(1 << 21), e); /* 2^-128, 2^-127 */
    __m256i v = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i large = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(low, v, large));
}
INLINE __m256i q_subs(qkind k, const uint8_t *at, int h)
{
    __m256i v = q_widen8(at + 16 * h, k.scale == PANEL_SUB8);
    return k.scale == PANEL_SUB4 ? _mm256_and_si256(v, _mm256_set1_epi16(15)) : v;
}
INLINE __m256i q_minima(qkind k, const uint8_t *at, int h)
{
    if (k.scale == PANEL_SUB8) at += PANEL_ROWS * (k.span / k.block);
    __m256i v = q_widen8(at + 16 * h, false);
    return k.scale == PANEL_SUB4 ? _mm256_srli_epi16(v, 4) : v;
}

/* Levels of codes that are looked up as group vectors, less the zero: a table of 16; or tables of four, each a word:
 * tables 0 … 7, then 8 … 15. */
typedef struct qtable {
    qline v[2];
} qtable;

#if defined(__AVXVNNI__)
#define DOT4            true
#define Q_DOT4(a, w, x) _mm256_dpbusd_avx_epi32(a, w, x)
#else
#define DOT4            false
#define Q_DOT4(a, w, x) (a)
#endif

/* Without DOT4, a pair of products of levels of 8 bits does not fit in 16 bits. Signed levels do, if their sign goes to
 * the activation (-127 … 127): codes less 128, and tables as they are. */
INLINE bool q_by_sign(qkind k)
{
    return !DOT4 && ((k.bits == 8 && k.code == PANEL_CODE) || (k.code == PANEL_LOOK && k.zero == -128));
}

INLINE qtable q_table(qkind k, const qjob *q)
{
    qtable t = {{Q_ZERO(), Q_ZERO()}};
    const __m256i zero = _mm256_set1_epi8(q_by_sign(k) ? 0 : (char)k.zero), *level = (const void *)q->level;
    if (k.code == PANEL_LOOK)
        t.v[0] = _mm256_sub_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)level)), zero);
    if (!q_picks(k) || q_turns(k)) return t;
    UNROLLED (i, 2) t.v[i] = _mm256_sub_epi8(_mm256_loadu_si256(level + i), zero);
    return t;
}

/* Picks of the eight rows in tile t: words, the first pick lowest. */
INLINE qline q_words(qkind k, const uint8_t *tail, int t, int h)
{
    if (!q_picks(k) || q_turns(k)) return Q_ZERO();
    return _mm256_loadu_si256((const __m256i *)(const void *)(tail + t * PANEL_LINE + 32 * h));
}

/* Group vector g of a tile, looked up. Each word gets the table of four that its row has picked. */
INLINE qline q_look(qkind k, const qtable *t, qline words, int g, qline w)
{
    if (k.code == PANEL_CODE || k.code == PANEL_E4M3) return w;
    if (k.code == PANEL_LOOK) return _mm256_shuffle_epi8(t->v[0], w);
    const __m256i row = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const __m256i pick = _mm256_srli_epi32(words, g / 2 * 4), upper = _mm256_slli_epi32(pick, 28);
    __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t->v[0], pick)),
           high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t->v[1], pick));
    __m256 mine = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(upper));
    return _mm256_shuffle_epi8(_mm256_castps_si256(mine), _mm256_or_si256(w, row));
}

/* Additions that stay in their places: the compiler would delay them and spill the products. */
INLINE void q_add(__m256i *sum, __m256i v) { __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(v)); }
INLINE void q_add_pairs(__m256i *sum, __m256i v) { __asm__("vpaddw %1, %0, %0" : "+x"(*sum) : "x"(v)); }

/* Start of the sum of a block, one level: the zero, or what the codes lack of it, times the sum of its activations. */
INLINE __m256i q_start(qkind k, const int32_t *neg_sum, const int16_t *neg_subsums, int b)
{
    if (q_by_sign(k)) return _mm256_set1_epi32((-k.zero - 128) * *neg_sum); /* of a table 0 */
    if (!k.zero || q_two(k)) return Q_ZERO();                               /* FP8 too */
    if (k.block == 16) return _mm256_set1_epi32(k.zero * -neg_subsums[2 + b]);
    return _mm256_slli_epi32(_mm256_set1_epi32(*neg_sum), q_shift(k));
}

/* Row m of the results of half h. */
INLINE void q_put(const qjob *q, int h, int m, __m256 f)
{
    __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(q->n_out - 8 * h), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    if (q->bias) f = _mm256_add_ps(f, _mm256_maskload_ps(q->bias + 8 * h, lanes));
    _mm256_maskstore_ps(q->y + m * q->ldy + 8 * h, lanes, f);
}

/* A body: rows r0 … r0 + mr - 1 of a tile of `stride` rows against `halves` of a panel, from half h0 on. */
typedef struct qshape {
    qkind k;
    int halves, stride, mr, h0, r0;
    fetch_way way;
} qshape;

/* The registers of a body: for one half at a time, except f and picks, which are by half. */
typedef struct qstate {
    const qjob *q;
    act_part x, xb; /* activations of this tile of 64 k; of this block */
    qtable table;
    qline words, kept, w[4]; /* picks; state of q_unpack; group vectors of a step */
    const uint8_t *turned;   /* q_turns: tables, picks, group vectors of the tile */
    qpicks picks[2];
    qline group[16];
    __m256i a[ACT_ROWS], low[ACT_ROWS]; /* sums of a block; without DOT4, those of 16 bits */
    __m256i whole[ACT_ROWS], by;        /* two levels: sums of the tile, times sub-scales; these sub-scales, else 1 */
    __m256 factor, f[2][ACT_ROWS];      /* f: results */
} qstate;

/* Number of sums of pairs of products that fit in 16 bits. */
INLINE int q_fits(qkind k)
{
    if (k.code == PANEL_LOOK && k.zero == -16) return 4; /* levels of -16 … 15 */
    return k.code != PANEL_CODE || q_by_sign(k) ? 1 : k.bits == 6 ? 2 : k.bits == 5 ? 4 : 8;
}

/* Half i of this pass. Two levels without minima start with the zero times the sums of activations. */
INLINE void q_start_tile(qshape z, qplace at, qstate *s, int i)
{
    const qkind k = z.k;
    const int h = z.h0 + i;
    s->xb = s->x;
    s->kept = Q_ZERO();
    s->words = q_words(k, at.tail, at.t, h);
    if (q_turns(k)) {
        q_next_picks(k, at.tail, at.t, h, &s->picks[i]);
        q_pick_groups(k, s->turned, &s->picks[i], at.lines + 32 * h, s->group);
    }
    UNROLLED (m, z.mr) s->whole[m] = Q_ZERO();
    if (!q_two(k) || k.base || q_by_sign(k)) return;
    UNROLLED (p, PANEL_K / q_block(k) / 2) {
        __m256i zero = _mm256_slli_epi16(q_subs(k, at.subs + p * 2 * PANEL_ROWS, h), q_shift(k));
        UNROLLED (m, z.mr) {
            __m256i x = _mm256_set1_epi32(q_subsums(s->x.neg_subsums + m * ACT_SUBSUMS, k.block, p));
            s->whole[m] = _mm256_add_epi32(s->whole[m], _mm256_madd_epi16(zero, x));
        }
    }
}

INLINE void q_start_block(qshape z, qplace at, qstate *s, int i, int b)
{
    const qkind k = z.k;
    UNROLLED (m, z.mr) {
        s->a[m] = q_two(k) && !DOT4 ? s->whole[m]
                                    : q_start(k, s->xb.neg_sum + m, q_subsums_of(k, s->x.neg_subsums, m), b);
        s->low[m] = Q_ZERO();
    }
    s->by = _mm256_set1_epi16(1);
    if (!q_two(k)) return;
    const __m256i by = q_subs(k, at.subs + b / 2 * 2 * PANEL_ROWS, z.h0 + i);
    if (DOT4) s->by = _mm256_srai_epi32(b % 2 ? by : _mm256_slli_epi32(by, 16), 16);
    else /* one of each pair, twice */
        s->by = b % 2 ? _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(by, 0xf5), 0xf5)
                      : _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(by, 0xa0), 0xa0);
}

/* Step j of the tile. Both halves at once: prefetches stay between the multiplications. */
INLINE void q_unpack_step(qshape z, qplace at, qstate *s, int i, int j)
{
    const qkind k = z.k;
    const int width = q_width(k.bits), all = 2 * 16 / width, lines = q_pinned(z.way, q_code_lines(k));
    if (!q_turns(k)) q_unpack(k.bits, at.lines + 32 * (z.h0 + i), j, &s->kept, s->w);
    UNROLLED (v, width) {
        const int g = j * width + v;
        s->w[v] = q_turns(k) ? s->group[g] : q_look(k, &s->table, s->words, g, s->w[v]);
    }
    if (z.halves == 1) return;
    const int step = i * all / 2 + j, line = step * lines / all, n = (step + 1) * lines / all - line;
    __m256i *place = DOT4 || q_by_sign(k) || k.code == PANEL_E4M3 ? &s->a[0] : &s->low[0];
    UNROLLED (l, n) q_prefetch(z.way, q_ahead(z.way, at.ahead, line + l), place);
    if (step == all - 1) q_prefetch(z.way, q_page(at.ahead), place);
}

/* Group vector v of a step times four activations of row m, without DOT4: pairs into 16 bits, from the `first` on as
 * many sums as fit there, then (`last`) pairs of those, times the sub-scale or 1. */
INLINE void q_multiply_pairs(qkind k, qstate *s, int m, int v, __m256i x, bool first, bool last)
{
    qline w = s->w[v];
    if (q_by_sign(k)) {
        const __m256i level = k.code == PANEL_LOOK ? w : _mm256_xor_si256(w, _mm256_set1_epi8(-128));
        w = _mm256_abs_epi8(level);
        x = _mm256_sign_epi8(x, level);
    }
    const __m256i pairs = _mm256_maddubs_epi16(w, x);
    if (first) s->low[m] = pairs;
    else q_add_pairs(&s->low[m], pairs);
    if (last) q_add(&s->a[m], _mm256_madd_epi16(s->low[m], s->by));
}

/* FP8: a level (e4m3.h) is a digit of seven bits at one of four places, 0, 4, 8 or 12 bits up. Pairs of products of
 * digits with activations that have taken the sign fit in 16 bits, and are multiplied by their place when pairs of them
 * are added. */
enum { E4M3_PLACES = 4 };
typedef struct qplaces {
    qline digit[E4M3_PLACES], sign;
} qplaces;
INLINE qplaces q_places(qline w)
{
    const __m256i eights = _mm256_setr_epi8(8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 8, 9, 10, 11,
                                            12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30),
                  small = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 6, 8, 10, 12, 14,
                                           0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i low = Q_AND(w, 15), none = _mm256_cmpeq_epi8(Q_AND(w, 0x78), Q_ZERO());
    __m256i digit = _mm256_shuffle_epi8(eights, low);
    digit = _mm256_blendv_epi8(digit, Q_LEFT(digit, 2), Q_LEFT(w, 3)); /* at most 30, then 120 */
    digit = _mm256_blendv_epi8(digit, _mm256_shuffle_epi8(small, low), none);
    qplaces to = {.sign = _mm256_or_si256(w, _mm256_set1_epi8(1))};
    UNROLLED (i, E4M3_PLACES)
        to.digit[i] = _mm256_and_si256(digit, _mm256_cmpeq_epi8(Q_AND(w, 0x60), _mm256_set1_epi8((char)(i << 5))));
    return to;
}

INLINE void q_multiply_e4m3(qshape z, qstate *s, int j)
{
    const qplaces w = q_places(s->w[0]);
    UNROLLED (m, z.mr) {
        const __m256i x = _mm256_set1_epi32(q_four(s->xb.code + (j * z.stride + m) * 4)),
                      mine = _mm256_sign_epi8(x, w.sign);
        UNROLLED (i, E4M3_PLACES)
            q_add(&s->a[m],
                  _mm256_madd_epi16(_mm256_maddubs_epi16(w.digit[i], mine), _mm256_set1_epi16((short)(1 << 4 * i))));
    }
}

/* Step j of a block. */
INLINE void q_multiply_step(qshape z, qstate *s, int j)
{
    if (z.k.code == PANEL_E4M3) {
        q_multiply_e4m3(z, s, j);
        return;
    }
    const int width = q_width(z.k.bits), fits = q_fits(z.k), groups = q_block(z.k) / 4;
    UNROLLED (v, width) {
        const int g = j * width + v;
        UNROLLED (m, z.mr) {
            const __m256i x = _mm256_set1_epi32(q_four(s->xb.code + (g * z.stride + m) * 4));
            if (DOT4) s->a[m] = Q_DOT4(s->a[m], s->w[v], x);
            else q_multiply_pairs(z.k, s, m, v, x, g % fits == 0, g % fits == fits - 1 || g == groups - 1);
        }
    }
}

INLINE void q_scale_block(qshape z, qplace at, qstate *s, int i, int b)
{
    const qkind k = z.k;
    const int block = q_block(k), h = z.h0 + i;
    s->xb.code += block * z.stride;
    if (q_two(k)) {
        UNROLLED (m, z.mr)
            s->whole[m] = DOT4 ? _mm256_add_epi32(s->whole[m], _mm256_mullo_epi32(s->a[m], s->by)) : s->a[m];
        return;
    }
    const int n = (at.t * PANEL_K + b * block) / k.block;
    __m256 dw = q_scale(k, at.tail, at.tiles, n, h);
    if (k.scale == PANEL_E5M3 || k.code == PANEL_E4M3) dw = _mm256_mul_ps(dw, s->factor);
    UNROLLED (m, z.mr)
        s->f[i][m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s->a[m]), _mm256_mul_ps(dw, _mm256_set1_ps(s->xb.scale[m])),
                                     s->f[i][m]);
    if (k.base) {
        __m256 mw = q_base(at.tail + (k.span / k.block + n) * 2 * PANEL_ROWS, h);
        if (k.base == PANEL_ZERO) mw = _mm256_mul_ps(mw, dw);
        UNROLLED (m, z.mr) s->f[i][m] = _mm256_fmadd_ps(mw, _mm256_set1_ps(s->xb.scaled_sum[m]), s->f[i][m]);
    }
    if ((b + 1) * block % q_act(k)) return;
    s->xb.scale += z.stride;
    s->xb.scaled_sum += z.stride;
    s->xb.neg_sum += z.stride;
}

INLINE void q_scale_tile(qshape z, qplace at, qstate *s, int i)
{
    const qkind k = z.k;
    const int h = z.h0 + i;
    const __m256 d = _mm256_mul_ps(q_base(at.tail, h), s->factor);
    UNROLLED (m, z.mr) {
        __m256 v = _mm256_cvtepi32_ps(s->whole[m]), by = _mm256_set1_ps(s->x.scale[m]);
        __m256i minimum = Q_ZERO();
        if (!k.base) {
            s->f[i][m] = _mm256_fmadd_ps(v, _mm256_mul_ps(d, by), s->f[i][m]);
            continue;
        }
        UNROLLED (p, PANEL_K / q_block(k) / 2) {
            __m256i x = _mm256_set1_epi32(q_subsums(s->x.neg_subsums + m * ACT_SUBSUMS, k.block, p));
            minimum = _mm256_add_epi32(minimum, _mm256_madd_epi16(q_minima(k, at.subs + p * 2 * PANEL_ROWS, h), x));
        }
        v = _mm256_fmadd_ps(q_base(at.tail + 32, h), _mm256_cvtepi32_ps(minimum), _mm256_mul_ps(d, v));
        s->f[i][m] = _mm256_fmadd_ps(v, by, s->f[i][m]);
    }
}

INLINE void q_pass(qshape z, const qjob *q, bool fetch)
{
    const qkind k = z.k;
    const int blocks = PANEL_K / q_block(k), steps = 16 / q_width(k.bits) / blocks, acts = PANEL_K / q_act(k);
    const int code_bytes = q_code_lines(k) * PANEL_LINE, tail_lines = q->f->tail_lines;
    const act_part x = q->x;
    qplace at = {.lines = q->panel};
    qstate s = {.q = q, .table = q_table(k, q), .turned = q_turns(k) ? q_pick_tables(q->f) : NULL};
    s.factor = _mm256_set1_ps(q->f->factor);
    s.x = (act_part){x.code + 4 * z.r0, x.scale + z.r0, x.scaled_sum + z.r0, x.neg_sum + z.r0,
                     x.neg_subsums ? x.neg_subsums + z.r0 * ACT_SUBSUMS : NULL};
    UNROLLED (m, z.mr) s.f[0][m] = s.f[1][m] = _mm256_setzero_ps();
    for (int64_t tile = 0; tile < q->k_tiles; at.lines += tail_lines * PANEL_LINE) {
        at = q_next_span(k, at, q->k_tiles - tile);
        at.ahead = q->ahead + (at.lines - q->panel);
        if (z.halves == 2)
            for (int l = 0; l < q_fetched(z.way, tail_lines); l++)
                prefetch_by(z.way, q_ahead(z.way, at.ahead + at.tiles * code_bytes, l));
        for (at.t = 0; at.t < at.tiles; at.t++, tile++, at.lines += code_bytes, at.ahead += code_bytes) {
            at.subs = q_subs_at(k, at);
            if (fetch && z.halves == 1) q_fetch(z.way, q, tile);
            UNROLLED (i, z.halves) {
                q_start_tile(z, at, &s, i);
                UNROLLED (b, blocks) {
                    q_start_block(z, at, &s, i, b);
                    UNROLLED (j, steps) {
                        q_unpack_step(z, at, &s, i, b * steps + j);
                        q_multiply_step(z, &s, j);
                    }
                    q_scale_block(z, at, &s, i, b);
                }
                if (q_two(k)) q_scale_tile(z, at, &s, i);
            }
            s.x.code += PANEL_K * z.stride;
            s.x.scale += acts * z.stride;
            s.x.scaled_sum += acts * z.stride;
            s.x.neg_sum += acts * z.stride;
            if (q_act(k) == 64) s.x.neg_subsums += z.stride * ACT_SUBSUMS;
        }
    }
    UNROLLED (i, z.halves)
        UNROLLED (m, z.mr) q_put(q, z.h0 + i, z.r0 + m, s.f[i][m]);
}

/* One row of activations against a panel of a kind that is transposed (v_qpick.h), in one function: its phases
 * differ. */
INLINE void q_pick_row(qkind k, fetch_way way, const qjob *q)
{
    const int code_lines = q_code_lines(k), tail_lines = q->f->tail_lines;
    const uint8_t *tables = q_pick_tables(q->f), *p = q->panel;
    const int8_t *code = q->x.code;
    const float *scale = q->x.scale;
    const int32_t *neg_sum = q->x.neg_sum;
    const __m256 factor = _mm256_set1_ps(q->f->factor);
    __m256 f[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, d[2] = {f[0], f[1]};
    qpicks picks[2] = {{NULL, {{0}}}, {NULL, {{0}}}};
    for (int64_t s = 0; s < q->k_tiles;) {
        int64_t left = q->k_tiles - s;
        const int tiles = left < k.span / PANEL_K ? (int)left : k.span / PANEL_K;
        const uint8_t *tail = p + tiles * code_lines * PANEL_LINE, *ahead = q->ahead + (p - q->panel);
        for (int l = 0; l < q_fetched(way, tail_lines); l++)
            prefetch_by(way, q_ahead(way, ahead + tiles * code_lines * PANEL_LINE, l));
        for (int t = 0; t < tiles; t++, s++, p += code_lines * PANEL_LINE, ahead += code_lines * PANEL_LINE,
                 code += PANEL_K, scale++, neg_sum++) {
            __m256i a[2][4];
            UNROLLED (h, 2) {
                q_next_picks(k, tail, t, h, &picks[h]);
                if (t % 2 == 0) d[h] = _mm256_mul_ps(q_scale(k, tail, tiles, t / 2, h), factor);
            }
            UNROLLED (j, 4) {
                qline x = q_pick_x(k, code + 16 * j), w[4];
                UNROLLED (h, 2) {
                    if (j == 3 && h == 1) q_prefetch(way, q_page(ahead), &a[0][0]);
                    q_pick_levels(k, tables, &picks[h], p + 32 * h, j, w);
                    UNROLLED (r, 4) q_pick_add(&a[h][r], w[r], x, j == 0);
                    const int lines = q_pinned(way, code_lines), line = (2 * j + h) * lines / 8,
                              next = (2 * j + h + 1) * lines / 8;
                    UNROLL for (int l = line; l < next; l++) q_prefetch(way, q_ahead(way, ahead, l), &a[h][0]);
                }
            }
            UNROLLED (h, 2) {
                __m256i sum = _mm256_add_epi32(q_pick_sum(a[h]), q_start(k, neg_sum, NULL, 0));
                __m256 by = _mm256_mul_ps(d[h], _mm256_set1_ps(*scale));
                f[h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), by, f[h]);
            }
        }
        p += tail_lines * PANEL_LINE;
    }
    UNROLLED (h, 2) q_put(q, h, 0, f[h]);
}

/* Few rows, bound by memory, take both halves of a panel at once. More rows take one half after the other, at most
 * QGROUP rows at once for lack of registers; all rows of a kind that is transposed, so that this is done once. */
INLINE void qtile(qkind k, int np, int mr, fetch_way way, const qjob *q)
{
    (void)np;
    if (q_turns(k) && mr == 1) {
        q_pick_row(k, way, q);
        return;
    }
    if (mr <= (DOT4 ? 2 : 1)) {
        q_pass((qshape){k, 2, mr, mr, 0, 0, way}, q, true);
        return;
    }
    const int most = q_turns(k) ? ACT_ROWS : QGROUP, first = mr > most ? (mr + 1) / 2 : mr;
    for (int h = 0; h < 2; h++) {
        q_pass((qshape){k, 1, mr, first, h, 0, way}, q, h == 0);
        if (first < mr) q_pass((qshape){k, 1, mr, mr - first, h, first, way}, q, false);
    }
}
