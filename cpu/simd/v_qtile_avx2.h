/* v_qtile_avx2.h - the body of v_qtile.h on AVX2: registers of eight rows x four k, sixteen of them, so a tile takes one half of a panel after the other,
 * and a few rows at once. */
#ifndef CPU_V_QTILE_AVX2_H
#define CPU_V_QTILE_AVX2_H
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"
#include "cpu/simd/v_qpick.h"

/* As on AVX-512, of 8 rows: half h of the panel. */
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

/* Levels of codes that are looked up as group vectors, less the zero: a table of 16; or tables of four, each a word: tables 0 … 7, then 8 … 15. */
typedef struct qtable {
    qline v[2];
} qtable;
INLINE qtable q_table(qkind k, const qjob *q)
{
    qtable t = {{Q_ZERO(), Q_ZERO()}};
    const __m256i zero = _mm256_set1_epi8((char)k.zero), *level = (const void *)q->level;
    if (k.code == PANEL_LOOK)
        t.v[0] = _mm256_sub_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)level)), zero);
    if (!q_picks(k) || q_turns(k)) return t;
    UNROLL for (int i = 0; i < 2; i++) t.v[i] = _mm256_sub_epi8(_mm256_loadu_si256(level + i), zero);
    return t;
}

/* Picks of the eight rows in tile t: words, the first pick lowest. */
INLINE qline q_words(qkind k, const uint8_t *tail, int t, int h)
{
    if (!q_picks(k) || q_turns(k)) return Q_ZERO();
    return _mm256_loadu_si256((const __m256i *)(const void *)(tail + t * PANEL_LINE + 32 * h));
}

/* Group vector g of a tile, looked up. The table of four that a row has picked comes into its own word. */
INLINE qline q_look(qkind k, const qtable *t, qline words, int g, qline w)
{
    if (k.code == PANEL_CODE) return w;
    if (k.code == PANEL_LOOK) return _mm256_shuffle_epi8(t->v[0], w);
    const __m256i row = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const __m256i pick = _mm256_srli_epi32(words, g / 2 * 4), upper = _mm256_slli_epi32(pick, 28);
    __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t->v[0], pick)),
           high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t->v[1], pick));
    __m256 mine = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(upper));
    return _mm256_shuffle_epi8(_mm256_castps_si256(mine), _mm256_or_si256(w, row));
}

/* An addition in its place: others the compiler puts off, and what is to be added goes through memory. */
INLINE void q_add(__m256i *sum, __m256i v) { __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(v)); }

#if defined(__AVXVNNI__)
#define DOT4            true
#define Q_DOT4(a, w, x) _mm256_dpbusd_avx_epi32(a, w, x)
#else
#define DOT4            false
#define Q_DOT4(a, w, x) (a)
#endif

/* What the sum of a block of one level starts with: the zero times the sum of its activations. */
INLINE __m256i q_start(qkind k, const int32_t *less, const int16_t *parts, int b)
{
    if (!k.zero || q_two(k)) return Q_ZERO();
    if (k.block == 16) return _mm256_set1_epi32(k.zero * -parts[2 + b]);
    return _mm256_slli_epi32(_mm256_set1_epi32(*less), q_shift(k));
}

/* Row m of the results of eight rows of weights. */
INLINE void q_put(const qjob *q, int h, int m, __m256 f)
{
    __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(q->n_out - 8 * h), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    if (q->bias) f = _mm256_add_ps(f, _mm256_maskload_ps(q->bias + 8 * h, lanes));
    _mm256_maskstore_ps(q->y + m * q->ldy + 8 * h, lanes, f);
}

/* Rows r0 … r0 + mr - 1 of a tile of `stride` against `halves` of a panel, from half h0 on.
 *
 * Without a multiplier of bytes into words of 32 bits (DOT4): pairs into 16 bits, as many sums as fit there, then pairs of those, times the
 * sub-scale or 1. Levels of 8 bits are taken as two nibbles, because a pair of their products does not fit. */
INLINE void q_pass(qkind k, int halves, int stride, int mr, const qjob *q, int h0, int r0, bool fetch)
{
    const bool in_place = halves == 2, two = q_two(k), wide = k.bits == 8 || (k.code == PANEL_LOOK && k.bits == 4);
    const int block = q_block(k), blocks = PANEL_K / block, pairs = blocks / 2, width = q_width(k.bits),
              steps = 16 / width / blocks;
    const int fits = wide                   ? 8
                     : k.code != PANEL_CODE ? 1
                     : k.bits == 6          ? 2
                     : k.bits == 5          ? 4
                                            : 8; /* sums of pairs below 2^15 */
    const int code_lines = q_code_lines(k), tail_lines = q->f->tail_lines, groups = block / 4;
    const uint8_t *panel = q->panel;
    const int8_t *code = q->x.code + 4 * r0;
    const float *scale = q->x.scale + r0, *total = q->x.scaled_sum + r0;
    const int32_t *less = q->x.neg_sum + r0;
    const int16_t *parts = q->x.neg_subsums ? q->x.neg_subsums + r0 * ACT_SUBSUMS : NULL;
    const __m256 factor = _mm256_set1_ps(q->f->factor);
    const uint8_t *turned = q_turns(k) ? q_pick_tables(q->f) : NULL;
    const qtable table = q_table(k, q);
    qpicks picks[2] = {{NULL, {{0}}}, {NULL, {{0}}}};
    __m256 f[2][ACT_ROWS];
    UNROLL for (int m = 0; m < mr; m++) f[0][m] = f[1][m] = _mm256_setzero_ps();
    for (int64_t s = 0; s < q->k_tiles;) {
        int64_t left = q->k_tiles - s;
        const int tiles = k.span == PANEL_K ? 1 : left < k.span / PANEL_K ? (int)left : k.span / PANEL_K;
        const uint8_t *tail = panel + tiles * code_lines * PANEL_LINE, *ahead = q->ahead + (panel - q->panel);
        if (in_place)
            for (int l = 0; l < tail_lines; l++) prefetch_near(ahead + (tiles * code_lines + l) * PANEL_LINE);
        for (int t = 0; t < tiles; t++, s++, panel += code_lines * PANEL_LINE, ahead += code_lines * PANEL_LINE) {
            const uint8_t *subs = tail + (k.base ? 64 : 32) + t * pairs * 2 * PANEL_ROWS;
            if (fetch && !in_place) q_fetch(q, s);
            UNROLL for (int i = 0; i < halves; i++)
            {
                const int h = h0 + i;
                const uint8_t *half = panel + 32 * h;
                const int8_t *x8 = code;
                const float *sx = scale, *tx = total;
                const int32_t *lx = less;
                qline kept = Q_ZERO(), words = q_words(k, tail, t, h), group[16];
                __m256i whole[ACT_ROWS];
                if (q_turns(k)) {
                    q_next_picks(k, tail, t, h, &picks[i]);
                    q_pick_groups(k, turned, &picks[i], half, group);
                }
                UNROLL for (int m = 0; m < mr; m++) whole[m] = Q_ZERO();
                if (two && !k.base) UNROLL for (int pr = 0; pr < pairs; pr++)
                    {
                        __m256i z = _mm256_slli_epi16(q_subs(k, subs + pr * 2 * PANEL_ROWS, h), q_shift(k));
                        UNROLL for (int m = 0; m < mr; m++)
                        {
                            __m256i x = _mm256_set1_epi32(q_parts(parts + m * ACT_SUBSUMS, k.block, pr));
                            whole[m] = _mm256_add_epi32(whole[m], _mm256_madd_epi16(z, x));
                        }
                    }
                UNROLL for (int b = 0; b < blocks; b++)
                {
                    __m256i a[ACT_ROWS], low[ACT_ROWS], high[ACT_ROWS], by = _mm256_set1_epi16(1);
                    UNROLL for (int m = 0; m < mr; m++)
                    {
                        a[m] = two && !DOT4 ? whole[m] : q_start(k, lx + m, parts + m * ACT_SUBSUMS, b);
                        low[m] = high[m] = Q_ZERO();
                    }
                    if (two && DOT4) {
                        by = q_subs(k, subs + b / 2 * 2 * PANEL_ROWS, h);
                        by = _mm256_srai_epi32(b % 2 ? by : _mm256_slli_epi32(by, 16), 16);
                    } else if (two) { /* one of each pair, twice */
                        by = q_subs(k, subs + b / 2 * 2 * PANEL_ROWS, h);
                        by = b % 2 ? _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(by, 0xf5), 0xf5)
                                   : _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(by, 0xa0), 0xa0);
                    }
                    UNROLL for (int j = 0; j < steps; j++)
                    {
                        qline w[4];
                        if (!q_turns(k)) q_unpack(k.bits, half, b * steps + j, &kept, w);
                        UNROLL for (int v = 0; v < width; v++)
                        {
                            int g = (b * steps + j) * width + v;
                            w[v] = q_turns(k) ? group[g] : q_look(k, &table, words, g, w[v]);
                        }
                        if (in_place) {
                            const int all = 2 * blocks * steps, at = (i * blocks + b) * steps + j;
                            const int line = at * code_lines / all, next = (at + 1) * code_lines / all;
                            __m256i *place = DOT4 ? &a[0] : &low[0];
                            UNROLL for (int l = line; l < next; l++) q_prefetch(ahead + PANEL_LINE * l, place);
                            if (at == all - 1) q_prefetch(q_page(ahead), place);
                        }
                        UNROLL for (int v = 0; v < width; v++)
                        {
                            int g = j * width + v;
                            UNROLL for (int m = 0; m < mr; m++)
                            {
                                __m256i x = _mm256_set1_epi32(q_four(x8 + (g * stride + m) * 4));
                                if (DOT4) {
                                    a[m] = Q_DOT4(a[m], w[v], x);
                                    continue;
                                }
                                if (wide) {
                                    low[m] = _mm256_add_epi16(low[m], _mm256_maddubs_epi16(Q_AND(w[v], 15), x));
                                    high[m] = _mm256_add_epi16(high[m],
                                                               _mm256_maddubs_epi16(Q_AND(Q_RIGHT(w[v], 4), 15), x));
                                } else {
                                    low[m] = _mm256_add_epi16(low[m], _mm256_maddubs_epi16(w[v], x));
                                }
                                if (g % fits != fits - 1 && g != groups - 1) continue;
                                if (!wide) q_add(&a[m], _mm256_madd_epi16(low[m], by));
                                else a[m] = _mm256_add_epi32(a[m], _mm256_madd_epi16(low[m], by));
                                low[m] = Q_ZERO();
                                if (!wide) continue;
                                a[m] = _mm256_add_epi32(a[m], _mm256_slli_epi32(_mm256_madd_epi16(high[m], by), 4));
                                high[m] = Q_ZERO();
                            }
                        }
                    }
                    x8 += block * stride;
                    UNROLL for (int m = 0; m < mr; m++) if (two)
                        whole[m] = DOT4 ? _mm256_add_epi32(whole[m], _mm256_mullo_epi32(a[m], by)) : a[m];
                    if (two) continue;
                    const int n = (t * PANEL_K + b * block) / k.block;
                    __m256 dw = q_scale(k, tail, tiles, n, h);
                    if (k.scale == PANEL_E5M3) dw = _mm256_mul_ps(dw, factor);
                    UNROLL for (int m = 0; m < mr; m++) f[i][m] = _mm256_fmadd_ps(
                        _mm256_cvtepi32_ps(a[m]), _mm256_mul_ps(dw, _mm256_set1_ps(sx[m])), f[i][m]);
                    if (k.base) {
                        __m256 mw = q_base(tail + (k.span / k.block + n) * 2 * PANEL_ROWS, h);
                        UNROLL for (int m = 0; m < mr; m++)
                            f[i][m] = _mm256_fmadd_ps(mw, _mm256_set1_ps(tx[m]), f[i][m]);
                    }
                    if ((b + 1) * block % q_act(k) == 0) {
                        sx += stride;
                        tx += stride;
                        lx += stride;
                    }
                }
                if (!two) continue;
                __m256 d = _mm256_mul_ps(q_base(tail, h), factor);
                UNROLL for (int m = 0; m < mr; m++)
                {
                    __m256 v = _mm256_cvtepi32_ps(whole[m]), by = _mm256_set1_ps(scale[m]);
                    __m256i least = Q_ZERO();
                    if (!k.base) {
                        f[i][m] = _mm256_fmadd_ps(v, _mm256_mul_ps(d, by), f[i][m]);
                        continue;
                    }
                    UNROLL for (int pr = 0; pr < pairs; pr++)
                    {
                        __m256i x = _mm256_set1_epi32(q_parts(parts + m * ACT_SUBSUMS, k.block, pr));
                        least = _mm256_add_epi32(least,
                                                 _mm256_madd_epi16(q_minima(k, subs + pr * 2 * PANEL_ROWS, h), x));
                    }
                    v = _mm256_fmadd_ps(q_base(tail + 32, h), _mm256_cvtepi32_ps(least), _mm256_mul_ps(d, v));
                    f[i][m] = _mm256_fmadd_ps(v, by, f[i][m]);
                }
            }
            code += PANEL_K * stride;
            scale += stride * (PANEL_K / q_act(k));
            total += stride * (PANEL_K / q_act(k));
            less += stride * (PANEL_K / q_act(k));
            if (q_act(k) == 64) parts += stride * ACT_SUBSUMS;
        }
        panel += tail_lines * PANEL_LINE;
    }
    UNROLL for (int i = 0; i < halves; i++) { UNROLL for (int m = 0; m < mr; m++) q_put(q, h0 + i, r0 + m, f[i][m]); }
}

/* One row of activations against a panel of a kind that is turned. */
INLINE void q_pick_row(qkind k, const qjob *q)
{
    const int code_lines = q_code_lines(k), tail_lines = q->f->tail_lines;
    const uint8_t *tables = q_pick_tables(q->f), *p = q->panel;
    const int8_t *code = q->x.code;
    const float *scale = q->x.scale;
    const int32_t *less = q->x.neg_sum;
    const __m256 factor = _mm256_set1_ps(q->f->factor);
    __m256 f[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, d[2] = {f[0], f[1]};
    qpicks picks[2] = {{NULL, {{0}}}, {NULL, {{0}}}};
    for (int64_t s = 0; s < q->k_tiles;) {
        int64_t left = q->k_tiles - s;
        const int tiles = left < k.span / PANEL_K ? (int)left : k.span / PANEL_K;
        const uint8_t *tail = p + tiles * code_lines * PANEL_LINE, *ahead = q->ahead + (p - q->panel);
        for (int l = 0; l < tail_lines; l++) prefetch_near(ahead + (tiles * code_lines + l) * PANEL_LINE);
        for (int t = 0; t < tiles; t++, s++, p += code_lines * PANEL_LINE, ahead += code_lines * PANEL_LINE,
                 code += PANEL_K, scale++, less++) {
            __m256i a[2][4];
            UNROLL for (int h = 0; h < 2; h++)
            {
                q_next_picks(k, tail, t, h, &picks[h]);
                if (t % 2 == 0) d[h] = _mm256_mul_ps(q_scale(k, tail, tiles, t / 2, h), factor);
            }
            UNROLL for (int j = 0; j < 4; j++)
            {
                qline x = q_pick_x(k, code + 16 * j), w[4];
                UNROLL for (int h = 0; h < 2; h++)
                {
                    if (j == 3 && h == 1) q_prefetch(q_page(ahead), &a[0][0]);
                    q_pick_levels(k, tables, &picks[h], p + 32 * h, j, w);
                    UNROLL for (int r = 0; r < 4; r++) q_pick_add(&a[h][r], w[r], x, j == 0);
                    const int line = (2 * j + h) * code_lines / 8, next = (2 * j + h + 1) * code_lines / 8;
                    UNROLL for (int l = line; l < next; l++) q_prefetch(ahead + PANEL_LINE * l, &a[h][0]);
                }
            }
            UNROLL for (int h = 0; h < 2; h++)
            {
                __m256i sum = _mm256_add_epi32(q_pick_sum(a[h]), q_start(k, less, NULL, 0));
                __m256 by = _mm256_mul_ps(d[h], _mm256_set1_ps(*scale));
                f[h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), by, f[h]);
            }
        }
        p += tail_lines * PANEL_LINE;
    }
    UNROLL for (int h = 0; h < 2; h++) q_put(q, h, 0, f[h]);
}

/* What waits for memory takes both halves of a panel at once. More rows take one half after the other, QGROUP rows at most, because there are
 * sixteen registers; but what is turned only once. */
INLINE void qtile(qkind k, int np, int mr, const qjob *q)
{
    (void)np;
    if (q_turns(k) && mr == 1) {
        q_pick_row(k, q);
        return;
    }
    if (mr <= (DOT4 ? 2 : 1)) {
        q_pass(k, 2, mr, mr, q, 0, 0, true);
        return;
    }
    const int most = q_turns(k) ? ACT_ROWS : QGROUP, first = mr > most ? (mr + 1) / 2 : mr;
    for (int h = 0; h < 2; h++) {
        q_pass(k, 1, mr, first, q, h, 0, h == 0);
        if (first < mr) q_pass(k, 1, mr, mr - first, q, h, first, false);
    }
}

#endif
