/* v_qtile_avx512.h - the body of v_qtile.h on AVX-512: registers of sixteen rows x four k, 32 of them, so a tile of
 * rows takes a panel or two. */
#pragma once
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"

/* Scales of block b, of 16 rows; one level. */
INLINE __m512 q_scale(qkind k, const uint8_t *tail, int tiles, int b)
{
    if (q_picks(k) && k.bits == 4) { /* the top byte of a word as that of an f16 */
        __m512i word = _mm512_loadu_si512((const void *)(tail + b * PANEL_LINE));
        return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_slli_epi32(_mm512_srli_epi32(word, 24), 7)));
    }
    const uint8_t *at = tail + q_pick_lines(k, tiles) * PANEL_LINE +
                        b * PANEL_ROWS *
                            (k.scale == PANEL_F32   ? 4
                             : k.scale == PANEL_F16 ? 2
                                                    : 1);
    if (k.scale == PANEL_F32) return _mm512_loadu_ps(at);
    if (k.scale == PANEL_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
    __m128i byte = _mm_loadu_si128((const __m128i *)(const void *)at);
    if (k.scale == PANEL_E5M3) return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(byte), 7));
    __m512i e = _mm512_cvtepu8_epi32(byte), low = _mm512_sllv_epi32(_mm512_set1_epi32(1 << 21), e); /* 2^-128, 2^-127 */
    __m512i v = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(v, _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), low));
}

INLINE __m512 q_base(const uint8_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

/* Two levels: sub-scales of two blocks side by side, as pairs of 16 bits; minima. */
INLINE __m512i q_subs(qkind k, const uint8_t *at)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)at);
    if (k.scale == PANEL_SUB4) return _mm512_cvtepu8_epi16(_mm256_and_si256(v, _mm256_set1_epi8(15)));
    return _mm512_cvtepi8_epi16(v);
}
INLINE __m512i q_minima(qkind k, const uint8_t *at)
{
    if (k.scale == PANEL_SUB8) at += PANEL_ROWS * (k.span / k.block);
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)at);
    if (k.scale == PANEL_SUB4) v = _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    return _mm512_cvtepu8_epi16(v);
}

/* Levels of codes that are looked up, less the zero; 128 of them are in two registers. Of FP8 the digits of levels. */
typedef struct qtable {
    qline v[2 * E4M3_DIGITS];
} qtable;
INLINE qtable q_table(qkind k, const qjob *q)
{
    qtable t = {{Q_ZERO(), Q_ZERO()}};
    if (k.code == PANEL_E4M3) {
        UNROLLED (i, 2 * E4M3_DIGITS) t.v[i] = _mm512_loadu_si512(e4m3_digits[i / 2] + i % 2 * 64);
        return t;
    }
    const __m512i zero = _mm512_set1_epi8((char)k.zero);
    if (k.code == PANEL_LOOK) t.v[0] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)q->level));
    if (q_picks(k)) t.v[0] = _mm512_loadu_si512((const void *)q->level);
    if (q_picks(k) && k.bits > 2) t.v[1] = _mm512_sub_epi8(_mm512_loadu_si512((const void *)(q->level + 64)), zero);
    t.v[0] = _mm512_sub_epi8(t.v[0], zero);
    return t;
}

/* The words of picks for tile t of a span, moved so that its first pick is lowest. */
INLINE qline q_words(qkind k, const uint8_t *tail, int t)
{
    if (!q_picks(k)) return Q_ZERO();
    if (k.code == PANEL_PICK8) return _mm512_loadu_si512((const void *)(tail + t * PANEL_LINE));
    __m512i word = _mm512_loadu_si512((const void *)(tail + t / 2 * PANEL_LINE));
    return _mm512_srl_epi32(word, _mm_cvtsi32_si128(t % 2 * (k.bits == 4 ? 12 : 16)));
}

/* Group vector g of a tile, looked up. The pick goes above the code's bits; bits above the index are ignored. */
INLINE qline q_look(qkind k, const qtable *t, qline words, int g, qline w)
{
    const __m512i row = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    if (k.code == PANEL_CODE || k.code == PANEL_E4M3) return w;
    if (k.code == PANEL_LOOK) return _mm512_shuffle_epi8(t->v[0], w);
    const int j = k.code == PANEL_PICK8 ? g / 2 : g / 4; /* pick */
    __m512i pick;
    if (k.bits == 4) {
        pick = 3 * j < 4 ? _mm512_slli_epi32(words, 4 - 3 * j) : _mm512_srli_epi32(words, 3 * j - 4);
        pick = _mm512_shuffle_epi8(pick, row);
    } else {
        pick = _mm512_shuffle_epi8(words, _mm512_add_epi8(row, _mm512_set1_epi8((char)(j / 2))));
        pick = j % 2 ? _mm512_srli_epi16(pick, 4 - k.bits) : _mm512_slli_epi16(pick, k.bits);
    }
    w = Q_PART(w, pick, (1 << k.bits) - 1);
    if (k.bits == 2) return _mm512_permutexvar_epi8(w, t->v[0]);
    return _mm512_permutex2var_epi8(t->v[0], w, t->v[1]);
}

/* The digits of FP8 levels plus 128, as a multiplier of unsigned bytes takes them: that of a size, or its negative. */
INLINE void q_digits(const qtable *t, qline codes, qline to[E4M3_DIGITS])
{
    const __mmask64 minus = _mm512_movepi8_mask(codes);
    UNROLLED (i, E4M3_DIGITS) {
        to[i] = _mm512_permutex2var_epi8(t->v[2 * i], codes, t->v[2 * i + 1]);
        to[i] = _mm512_mask_sub_epi8(to[i], minus, Q_ZERO(), to[i]);
    }
}

/* Start of the sum of block b of a row of activations: the zero times the sum of its codes. Of FP8 each digit has 128
 * too much. */
INLINE __m512i q_start(qkind k, const int32_t *neg_sum, const int16_t *neg_subsums, int b)
{
    if (k.code == PANEL_E4M3) return _mm512_slli_epi32(_mm512_set1_epi32(*neg_sum), 7);
    if (!k.zero) return Q_ZERO();
    if (!q_two(k) && k.block > 16) return _mm512_slli_epi32(_mm512_set1_epi32(*neg_sum), q_shift(k));
    __m512i pair = _mm512_set1_epi32(q_subsums(neg_subsums, k.block, b / 2));
    if (b % 2) return _mm512_slli_epi32(_mm512_srai_epi32(pair, 16), q_shift(k));
    return _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16 - q_shift(k));
}

/* A body as compiled: np panels against a tile of m1 rows and, where two tiles are joined, the next one of m2 rows. */
typedef struct qshape {
    qkind k;
    int np, m1, m2;
    fetch_way way;
} qshape;

/* The registers of a body. [2] is by panel; of x by tile of rows. */
typedef struct qstate {
    const qjob *q;
    act_part x[2]; /* activations of this block */
    qtable table;
    qline words[2], kept[2], w[2][4];            /* picks; state of q_unpack; group vectors of a step */
    __m512i a[2][QJOINED][E4M3_DIGITS];          /* sums of products of a block, in q_chains chains; of FP8 by digit */
    __m512i whole[2][QJOINED];                   /* two levels: sums of a tile of 64 k, times sub-scales */
    __m512 factor, d[2], dmin[2], f[2][QJOINED]; /* f: results */
} qstate;

/* Two chains of sums for the outputs of few rows: one alone would wait for itself. */
INLINE int q_chains(qshape z)
{
    return z.k.code == PANEL_E4M3 ? 1 : z.np * (z.m1 + z.m2) <= QJOINED && q_block(z.k) > 16 ? 2 : 1;
}

/* Sums of a block fit in 16 bits: one instruction applies a sub-scale and adds. */
INLINE bool q_narrow(qkind k) { return q_two(k) && k.code == PANEL_CODE && k.bits && k.bits < 4; }

/* Activations of row m, which begin at its first one; q_stride: rows of its tile. */
INLINE act_part q_row(qshape z, const qstate *s, int m)
{
    const act_part x = s->x[m >= z.m1];
    const int r = m < z.m1 ? m : m - z.m1;
    return (act_part){x.code + 4 * r, x.scale + r, x.scaled_sum + r, x.neg_sum + r,
                      q_subsums_of(z.k, x.neg_subsums, r)};
}
INLINE int q_stride(qshape z, int m) { return m < z.m1 ? z.m1 : z.m2; }

INLINE void q_open_span(qshape z, qplace at, qstate *s)
{
    const qjob *q = s->q;
    if (q_two(z.k))
        UNROLLED (i, z.np) {
            s->d[i] = _mm512_mul_ps(q_base(at.tail + i * q->apart), s->factor);
            if (z.k.base) s->dmin[i] = q_base(at.tail + 32 + i * q->apart);
        }
    if (z.np == 1)
        for (int l = 0; l < q_fetched(z.way, q->f->tail_lines); l++)
            prefetch_by(z.way, q_ahead(z.way, at.ahead + at.tiles * q_code_lines(z.k) * PANEL_LINE, l));
}

INLINE void q_start_tile(qshape z, qplace at, qstate *s, int64_t tile)
{
    s->kept[0] = s->kept[1] = Q_ZERO();
    if (z.np == 2) q_fetch(z.way, s->q, tile);
    UNROLLED (i, z.np) s->words[i] = q_words(z.k, at.tail + i * s->q->apart, at.t);
    UNROLLED (i, z.np)
        UNROLLED (m, z.m1 + z.m2) s->whole[i][m] = Q_ZERO();
}

INLINE void q_start_block(qshape z, qstate *s, int b)
{
    UNROLLED (m, z.m1 + z.m2) {
        const act_part x = q_row(z, s, m);
        __m512i start = q_start(z.k, x.neg_sum, x.neg_subsums, b);
        UNROLLED (i, z.np) {
            s->a[i][m][0] = start;
            UNROLLED (d, E4M3_DIGITS - 1) s->a[i][m][d + 1] = z.k.code == PANEL_E4M3 ? start : Q_ZERO();
        }
    }
}

/* Prefetches stay between the multiplications; a line of a page further on is prefetched where that was measured to
 * help (SPEED.md): 3 rows, and 4 of kinds of longer spans, lose by it. */
INLINE void q_unpack_step(qshape z, qplace at, qstate *s, int j)
{
    const qkind k = z.k;
    const int width = q_width(k.bits), steps = 16 / width, mr = z.m1 + z.m2;
    UNROLLED (i, z.np) {
        const uint8_t *lines = at.lines + i * s->q->apart;
        if (q_picks(k)) q_unpack_loose(k.bits, lines, j, &s->kept[i], s->w[i]);
        else q_unpack(k.bits, lines, j, &s->kept[i], s->w[i]);
        UNROLLED (v, width) s->w[i][v] = q_look(k, &s->table, s->words[i], j * width + v, s->w[i][v]);
    }
    if (z.np == 2) return;
    const int lines = q_pinned(z.way, q_code_lines(k)), first = j * lines / steps, n = (j + 1) * lines / steps - first;
    UNROLLED (l, n) q_prefetch(z.way, q_ahead(z.way, at.ahead, first + l), &s->a[0][0][0]);
    const int touch = mr <= PAGES_ROWS ? steps - 1 : mr == 4 && k.span == PANEL_K ? 0 : -1;
    if (j == touch) q_prefetch(z.way, q_page(at.ahead), &s->a[0][0][0]);
}

/* Step j of a block. */
INLINE void q_multiply_step(qshape z, qstate *s, int j)
{
    const int width = q_width(z.k.bits);
    if (z.k.code == PANEL_E4M3) {
        qline w[2][E4M3_DIGITS];
        UNROLLED (i, z.np) q_digits(&s->table, s->w[i][0], w[i]);
        UNROLLED (m, z.m1 + z.m2) {
            __m512i four = _mm512_set1_epi32(q_four(q_row(z, s, m).code + j * q_stride(z, m) * 4));
            UNROLLED (i, z.np)
                UNROLLED (d, E4M3_DIGITS) s->a[i][m][d] = _mm512_dpbusd_epi32(s->a[i][m][d], w[i][d], four);
        }
        return;
    }
    UNROLLED (v, width)
        UNROLLED (m, z.m1 + z.m2) {
            const int g = j * width + v, c = g % q_chains(z);
            __m512i four = _mm512_set1_epi32(q_four(q_row(z, s, m).code + g * q_stride(z, m) * 4));
            UNROLLED (i, z.np) s->a[i][m][c] = _mm512_dpbusd_epi32(s->a[i][m][c], s->w[i][v], four);
        }
}

/* Two levels: block b's sums of panel i, times their sub-scales, to those of the tile. */
INLINE void q_scale_subs(qshape z, qplace at, qstate *s, int b, int i)
{
    __m512i pair = q_subs(z.k, at.subs + i * s->q->apart + b / 2 * 2 * PANEL_ROWS), one;
    if (q_narrow(z.k)) one = b % 2 ? _mm512_srli_epi32(pair, 16) : _mm512_and_si512(pair, _mm512_set1_epi32(0xffff));
    else one = _mm512_srai_epi32(b % 2 ? pair : _mm512_slli_epi32(pair, 16), 16);
    UNROLLED (m, z.m1 + z.m2) {
        if (q_narrow(z.k)) s->whole[i][m] = _mm512_dpwssd_epi32(s->whole[i][m], s->a[i][m][0], one);
        else s->whole[i][m] = _mm512_add_epi32(s->whole[i][m], _mm512_mullo_epi32(s->a[i][m][0], one));
    }
}

INLINE void q_scale_block(qshape z, qplace at, qstate *s, int b)
{
    const qkind k = z.k;
    const int mr = z.m1 + z.m2, block = q_block(k);
    if (q_chains(z) == 2)
        UNROLLED (i, z.np)
            UNROLLED (m, mr) s->a[i][m][0] = _mm512_add_epi32(s->a[i][m][0], s->a[i][m][1]);
    if (k.code == PANEL_E4M3)
        UNROLLED (i, z.np)
            UNROLLED (m, mr)
                UNROLLED (d, E4M3_DIGITS - 1)
                    s->a[i][m][0] = _mm512_add_epi32(s->a[i][m][0],
                                                     _mm512_slli_epi32(s->a[i][m][d + 1], E4M3_DIGIT_BITS * (d + 1)));
    UNROLLED (i, z.np) {
        if (q_two(k)) {
            q_scale_subs(z, at, s, b, i);
            continue;
        }
        const uint8_t *tail = at.tail + i * s->q->apart;
        const int n = (at.t * PANEL_K + b * block) / k.block;
        __m512 dw = q_scale(k, tail, at.tiles, n);
        if (k.scale == PANEL_E5M3 || k.code == PANEL_E4M3) dw = _mm512_mul_ps(dw, s->factor);
        UNROLLED (m, mr)
            s->f[i][m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s->a[i][m][0]),
                                         _mm512_mul_ps(dw, _mm512_set1_ps(*q_row(z, s, m).scale)), s->f[i][m]);
        if (!k.base) continue;
        __m512 mw = q_base(tail + (k.span / k.block + n) * 2 * PANEL_ROWS);
        if (k.base == PANEL_ZERO) mw = _mm512_mul_ps(mw, dw);
        UNROLLED (m, mr) s->f[i][m] = _mm512_fmadd_ps(mw, _mm512_set1_ps(*q_row(z, s, m).scaled_sum), s->f[i][m]);
    }
    UNROLLED (i, 2) s->x[i].code += block * (i ? z.m2 : z.m1);
    if ((b + 1) * block % q_act(k) == 0 && !q_two(k))
        UNROLLED (i, 2) {
            s->x[i].scale += i ? z.m2 : z.m1;
            s->x[i].scaled_sum += i ? z.m2 : z.m1;
            s->x[i].neg_sum += i ? z.m2 : z.m1;
        }
}

INLINE void q_scale_tile(qshape z, qplace at, qstate *s)
{
    const qkind k = z.k;
    const int pairs = PANEL_K / q_block(k) / 2;
    UNROLLED (i, z.np) {
        __m512i minima[2];
        if (k.base)
            UNROLLED (p, pairs) minima[p] = q_minima(k, at.subs + i * s->q->apart + p * 2 * PANEL_ROWS);
        UNROLLED (m, z.m1 + z.m2) {
            const act_part x = q_row(z, s, m);
            __m512 v = _mm512_cvtepi32_ps(s->whole[i][m]), by = _mm512_set1_ps(*x.scale);
            if (!k.base) {
                s->f[i][m] = _mm512_fmadd_ps(v, _mm512_mul_ps(s->d[i], by), s->f[i][m]);
                continue;
            }
            __m512i minimum = Q_ZERO();
            UNROLLED (p, pairs)
                minimum = _mm512_dpwssd_epi32(minimum, minima[p],
                                              _mm512_set1_epi32(q_subsums(x.neg_subsums, k.block, p)));
            v = _mm512_fmadd_ps(s->dmin[i], _mm512_cvtepi32_ps(minimum), _mm512_mul_ps(s->d[i], v));
            s->f[i][m] = _mm512_fmadd_ps(v, by, s->f[i][m]);
        }
    }
    UNROLLED (i, 2) s->x[i].scale += i ? z.m2 : z.m1;
}

INLINE void q_store(qshape z, qstate *s)
{
    const qjob *q = s->q;
    UNROLLED (i, z.np) {
        __mmask16 lanes = i + 1 < z.np ? 0xffff : (__mmask16)((1u << q->n_out) - 1);
        UNROLLED (m, z.m1 + z.m2) {
            __m512 f = s->f[i][m];
            if (q->bias) f = _mm512_add_ps(f, _mm512_maskz_loadu_ps(lanes, q->bias + i * PANEL_ROWS));
            _mm512_mask_storeu_ps(q->y + m * q->ldy + i * PANEL_ROWS, lanes, f);
        }
    }
}

INLINE void q_pass(qshape z, const qjob *q)
{
    const qkind k = z.k;
    const int blocks = PANEL_K / q_block(k), steps = 16 / q_width(k.bits) / blocks;
    const int code_bytes = q_code_lines(k) * PANEL_LINE, tail_bytes = q->f->tail_lines * PANEL_LINE;
    qplace at = {.lines = q->panel, .ahead = q->ahead};
    qstate s = {
        .q = q, .x = {q->x, z.m2 ? q->second : q->x}, .table = q_table(k, q), .factor = _mm512_set1_ps(q->f->factor)};
    UNROLLED (i, z.np)
        UNROLLED (m, z.m1 + z.m2) s.f[i][m] = _mm512_setzero_ps();
    for (int64_t tile = 0; tile < q->k_tiles; at.lines += tail_bytes, at.ahead += tail_bytes) {
        at = q_next_span(k, at, q->k_tiles - tile);
        q_open_span(z, at, &s);
        for (at.t = 0; at.t < at.tiles; at.t++, tile++, at.lines += code_bytes, at.ahead += code_bytes) {
            at.subs = q_subs_at(k, at);
            q_start_tile(z, at, &s, tile);
            UNROLLED (b, blocks) {
                q_start_block(z, &s, b);
                UNROLLED (j, steps) {
                    q_unpack_step(z, at, &s, b * steps + j);
                    q_multiply_step(z, &s, j);
                }
                q_scale_block(z, at, &s, b);
            }
            if (q_two(k)) q_scale_tile(z, at, &s);
            if (q_act(k) == 64)
                UNROLLED (i, 2) s.x[i].neg_subsums += (i ? z.m2 : z.m1) * ACT_SUBSUMS;
        }
    }
    q_store(z, &s);
}

/* Two panels of FP8 one after the other: three sums for each output leave no registers for both. */
INLINE void qtile(qkind k, int np, int mr, fetch_way way, const qjob *q)
{
    if (k.code != PANEL_E4M3 || np == 1) {
        q_pass((qshape){k, np, mr, 0, way}, q);
        return;
    }
    qjob one = *q;
    for (int i = 0; i < np; i++, one.panel += q->apart, one.y += PANEL_ROWS) {
        one.n_out = i + 1 < np ? PANEL_ROWS : q->n_out;
        q_pass((qshape){k, 1, mr, 0, FETCH_NEAR}, &one);
        one.ahead += q->apart;
        if (one.bias) one.bias += PANEL_ROWS;
    }
}
