/* v_qtile.h - the body of MATMUL for packed weights: one panel of 16 outputs, or two, against a tile of 1 … ACT_ROWS rows. A kind of formats
 * (tensor/panel.h) is known at compile time; what else a format says (zero, table, factor) comes with the job.
 *
 * A zero is in the sums of products from the beginning: shifted, minus the sum of the block's activations, so it costs no multiplication.
 * Sub-scales are applied to int32 sums of blocks; minima, as pairs of 16 bits, to sums of activations, two blocks at once. Where sums of a block fit in 16 bits, one instruction applies a
 * sub-scale and adds; with AVX2 it takes the place of the addition of pairs, and costs nothing. */
#ifndef CPU_V_QTILE_H
#define CPU_V_QTILE_H
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"

INLINE void q_fetch(const qjob *q, int64_t super)
{
    const uint8_t *at = q->ahead + (uint64_t)(super * q->n_ahead) * PANEL_LINE;
    for (int l = 0; l < q->n_ahead; l++) prefetch_near(at + l * PANEL_LINE);
}

/* A row of PANEL_KIND_LIST, and what follows from it. */
typedef struct qkind {
    int bits, block, span, scale, base, code, zero;
} qkind;
#define Q_KIND(name, ...) ((qkind){__VA_ARGS__})

INLINE bool q_two(qkind k) { return k.scale == PANEL_SUB8 || k.scale == PANEL_SUB4; }
INLINE int q_act(qkind k) { return PANEL_ACT(k.bits, k.block, k.scale); }
/* k whose products are summed as integers. */
INLINE int q_block(qkind k) { return k.block < q_act(k) ? k.block : q_act(k); }
INLINE bool q_picks(qkind k) { return k.code == PANEL_PICK8 || k.code == PANEL_PICK16; }
/* Lines of picks at the beginning of the tail of a span of so many tiles; where picks have 3 bits, scales are in these words, above them. */
INLINE int q_pick_lines(qkind k, int tiles)
{
    return k.code == PANEL_PICK8 ? tiles : k.code == PANEL_PICK16 ? (tiles + 1) / 2 : 0;
}
INLINE int q_code_lines(qkind k) { return k.bits ? 2 * k.bits : 7; }

/* Bits by which minus the sum of activations is shifted to be the zero times the sum. */
INLINE int q_shift(qkind k) { return __builtin_ctz((unsigned)-k.zero); }

/* Minus the sums of 32 or 16 codes of a row, two of them in one word: pair `p` of the 64 k. */
INLINE int32_t q_parts(const int16_t *row, int block, int p)
{
    int32_t v;
    memcpy(&v, row + (block == 32 ? 0 : 2) + 2 * p, 4);
    return v;
}

#if !defined(__aarch64__)
/* A prefetch that stays in its place among the additions to a sum: others are gathered into bursts by the compiler, in any order. */
INLINE void q_prefetch(const uint8_t *at, qline *sum) { __asm__ volatile("prefetcht0 %1" : "+v"(*sum) : "m"(*at)); }

/* The page PAGES_AHEAD_Q in front. A prefetch waits for the translation of its address, and in a file every 4 KiB have their own: one or two rows,
 * which wait for memory alone, ask for it early, by a line of the page. */
enum { PAGE_Q = 4096, PAGES_AHEAD_Q = 32768, PAGES_ROWS = 2 };
INLINE const uint8_t *q_page(const uint8_t *at)
{
    return (const uint8_t *)((uintptr_t)at / PAGE_Q * PAGE_Q + PAGES_AHEAD_Q);
}
#endif

#if defined(__AVX512F__)

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

/* Levels of codes that are looked up, less the zero; 128 of them are in two registers. */
typedef struct qtable {
    qline v[2];
} qtable;
INLINE qtable q_table(qkind k, const qjob *q)
{
    qtable t = {{Q_ZERO(), Q_ZERO()}};
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

/* Group vector g of a tile, looked up. The pick lies above the code's bits; what is above the index is ignored. */
INLINE qline q_look(qkind k, const qtable *t, qline words, int g, qline w)
{
    const __m512i row = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    if (k.code == PANEL_CODE) return w;
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

/* What the sum of block b of a row of activations starts with: the zero times the sum of its codes. */
INLINE __m512i q_start(qkind k, const int32_t *less, const int16_t *parts, int b)
{
    if (!k.zero) return Q_ZERO();
    if (!q_two(k) && k.block > 16) return _mm512_slli_epi32(_mm512_set1_epi32(*less), q_shift(k));
    __m512i pair = _mm512_set1_epi32(q_parts(parts, k.block, b / 2));
    if (b % 2) return _mm512_slli_epi32(_mm512_srai_epi32(pair, 16), q_shift(k));
    return _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16 - q_shift(k));
}

/* Row m of two tiles as a row of its own one; the first has m1. */
INLINE int q_row(int m, int m1) { return m < m1 ? m : m - m1; }

/* A tile of m1 rows, and where m2 is not 0 the one after it, against np panels. Two chains of sums for the outputs of few rows: one alone would
 * wait for itself. */
INLINE void q_tiles(qkind k, int np, int m1, int m2, const qjob *q)
{
    const int mr = m1 + m2, rows[2] = {m1, m2};
    const bool two = q_two(k),
               narrow = two && k.code == PANEL_CODE && k.bits && k.bits < 4; /* sums of a block fit in 16 bits */
    const int block = q_block(k), blocks = PANEL_K / block, pairs = blocks / 2, width = q_width(k.bits),
              steps = 16 / width / blocks;
    const int chains = np * mr <= QJOINED && steps * width > 4 ? 2 : 1, code_lines = q_code_lines(k);
    /* Where a page is asked for: as measured (README.md); 3 rows, and 4 of kinds of longer spans, lose by it. */
    const int touch = mr <= PAGES_ROWS ? steps * blocks - 1 : mr == 4 && k.span == PANEL_K ? 0 : -1;
    const uint8_t *p = q->panel, *ahead = q->ahead;
    act_part x[2] = {q->x, q->second};
    const int tail_lines = q->f->tail_lines;
    const __m512 factor = _mm512_set1_ps(q->f->factor);
    const qtable table = q_table(k, q);
    __m512 f[2][QJOINED], d[2], dmin[2];
    UNROLL for (int i = 0; i < np; i++) { UNROLL for (int m = 0; m < mr; m++) f[i][m] = _mm512_setzero_ps(); }
    for (int64_t s = 0; s < q->k_tiles;) {
        int64_t left = q->k_tiles - s;
        const int tiles = k.span == PANEL_K ? 1 : left < k.span / PANEL_K ? (int)left : k.span / PANEL_K;
        const uint8_t *tail = p + tiles * code_lines * PANEL_LINE;
        if (two) UNROLL for (int i = 0; i < np; i++)
            {
                d[i] = _mm512_mul_ps(q_base(tail + i * q->apart), factor);
                if (k.base) dmin[i] = q_base(tail + 32 + i * q->apart);
            }
        if (np == 1)
            for (int l = 0; l < tail_lines; l++) prefetch_near(ahead + (tiles * code_lines + l) * PANEL_LINE);
        for (int t = 0; t < tiles; t++, s++, p += code_lines * PANEL_LINE, ahead += code_lines * PANEL_LINE) {
            qline kept[2] = {Q_ZERO(), Q_ZERO()};
            const uint8_t *subs = tail + (k.base ? 64 : 32) + t * pairs * 2 * PANEL_ROWS;
            __m512i whole[2][QJOINED], words[2];
            if (np == 2) q_fetch(q, s);
            UNROLL for (int i = 0; i < np; i++) words[i] = q_words(k, tail + i * q->apart, t);
            if (two) UNROLL for (int i = 0; i < np; i++)
                {
                    UNROLL for (int m = 0; m < mr; m++) whole[i][m] = Q_ZERO();
                }
            UNROLL for (int b = 0; b < blocks; b++)
            {
                __m512i a[2][QJOINED][2];
                UNROLL for (int m = 0; m < mr; m++)
                {
                    __m512i start = q_start(k, x[m >= m1].neg_sum + q_row(m, m1),
                                            x[m >= m1].neg_subsums + q_row(m, m1) * ACT_SUBSUMS, b);
                    UNROLL for (int i = 0; i < np; i++) a[i][m][0] = start, a[i][m][1] = Q_ZERO();
                }
                UNROLL for (int j = 0; j < steps; j++)
                {
                    qline w[2][4];
                    int at = b * steps + j, line = at * code_lines / (steps * blocks),
                        next = (at + 1) * code_lines / (steps * blocks);
                    UNROLL for (int i = 0; i < np; i++)
                    {
                        if (q_picks(k)) q_unpack_loose(k.bits, p + i * q->apart, at, &kept[i], w[i]);
                        else q_unpack(k.bits, p + i * q->apart, at, &kept[i], w[i]);
                        UNROLL for (int v = 0; v < width; v++)
                            w[i][v] = q_look(k, &table, words[i], at * width + v, w[i][v]);
                    }
                    if (np == 1) {
                        UNROLL for (int l = line; l < next; l++) q_prefetch(ahead + PANEL_LINE * l, &a[0][0][0]);
                        if (at == touch) q_prefetch(q_page(ahead), &a[0][0][0]);
                    }
                    UNROLL for (int v = 0; v < width; v++)
                    {
                        UNROLL for (int m = 0; m < mr; m++)
                        {
                            int g = j * width + v, c = g % chains;
                            __m512i four = _mm512_set1_epi32(
                                q_four(x[m >= m1].code + (g * rows[m >= m1] + q_row(m, m1)) * 4));
                            UNROLL for (int i = 0; i < np; i++)
                                a[i][m][c] = _mm512_dpbusd_epi32(a[i][m][c], w[i][v], four);
                        }
                    }
                }
                if (chains == 2) UNROLL for (int i = 0; i < np; i++)
                    {
                        UNROLL for (int m = 0; m < mr; m++) a[i][m][0] = _mm512_add_epi32(a[i][m][0], a[i][m][1]);
                    }
                UNROLL for (int i = 0; i < np; i++)
                {
                    if (two) {
                        __m512i pair = q_subs(k, subs + i * q->apart + b / 2 * 2 * PANEL_ROWS), one;
                        if (narrow)
                            one = b % 2 ? _mm512_srli_epi32(pair, 16)
                                        : _mm512_and_si512(pair, _mm512_set1_epi32(0xffff));
                        else one = _mm512_srai_epi32(b % 2 ? pair : _mm512_slli_epi32(pair, 16), 16);
                        UNROLL for (int m = 0; m < mr; m++)
                        {
                            if (narrow) whole[i][m] = _mm512_dpwssd_epi32(whole[i][m], a[i][m][0], one);
                            else whole[i][m] = _mm512_add_epi32(whole[i][m], _mm512_mullo_epi32(a[i][m][0], one));
                        }
                        continue;
                    }
                    const uint8_t *at = tail + i * q->apart;
                    const int n = (t * PANEL_K + b * block) / k.block;
                    __m512 dw = q_scale(k, at, tiles, n);
                    if (k.scale == PANEL_E5M3) dw = _mm512_mul_ps(dw, factor);
                    UNROLL for (int m = 0; m < mr; m++) f[i][m] = _mm512_fmadd_ps(
                        _mm512_cvtepi32_ps(a[i][m][0]),
                        _mm512_mul_ps(dw, _mm512_set1_ps(x[m >= m1].scale[q_row(m, m1)])), f[i][m]);
                    if (!k.base) continue;
                    __m512 mw = q_base(at + (k.span / k.block + n) * 2 * PANEL_ROWS);
                    UNROLL for (int m = 0; m < mr; m++)
                        f[i][m] = _mm512_fmadd_ps(mw, _mm512_set1_ps(x[m >= m1].scaled_sum[q_row(m, m1)]), f[i][m]);
                }
                UNROLL for (int i = 0; i < 2; i++) x[i].code += block * rows[i];
                if ((b + 1) * block % q_act(k) == 0 && !two) UNROLL for (int i = 0; i < 2; i++)
                    {
                        x[i].scale += rows[i];
                        x[i].scaled_sum += rows[i];
                        x[i].neg_sum += rows[i];
                    }
            }
            if (two) {
                UNROLL for (int i = 0; i < np; i++)
                {
                    __m512i minima[2];
                    if (k.base)
                        UNROLL for (int pr = 0; pr < pairs; pr++)
                            minima[pr] = q_minima(k, subs + i * q->apart + pr * 2 * PANEL_ROWS);
                    UNROLL for (int m = 0; m < mr; m++)
                    {
                        __m512 v = _mm512_cvtepi32_ps(whole[i][m]), by = _mm512_set1_ps(x[m >= m1].scale[q_row(m, m1)]);
                        __m512i least = Q_ZERO();
                        if (!k.base) {
                            f[i][m] = _mm512_fmadd_ps(v, _mm512_mul_ps(d[i], by), f[i][m]);
                            continue;
                        }
                        UNROLL for (int pr = 0; pr < pairs; pr++) least = _mm512_dpwssd_epi32(
                            least, minima[pr],
                            _mm512_set1_epi32(
                                q_parts(x[m >= m1].neg_subsums + q_row(m, m1) * ACT_SUBSUMS, k.block, pr)));
                        v = _mm512_fmadd_ps(dmin[i], _mm512_cvtepi32_ps(least), _mm512_mul_ps(d[i], v));
                        f[i][m] = _mm512_fmadd_ps(v, by, f[i][m]);
                    }
                }
                UNROLL for (int i = 0; i < 2; i++) x[i].scale += rows[i];
            }
            if (q_act(k) == 64) UNROLL for (int i = 0; i < 2; i++) x[i].neg_subsums += rows[i] * ACT_SUBSUMS;
        }
        p += tail_lines * PANEL_LINE;
        ahead += tail_lines * PANEL_LINE;
    }
    UNROLL for (int i = 0; i < np; i++)
    {
        __mmask16 lanes = i + 1 < np ? 0xffff : (__mmask16)((1u << q->n_out) - 1);
        UNROLL for (int m = 0; m < mr; m++)
        {
            if (q->bias) f[i][m] = _mm512_add_ps(f[i][m], _mm512_maskz_loadu_ps(lanes, q->bias + i * PANEL_ROWS));
            _mm512_mask_storeu_ps(q->y + m * q->ldy + i * PANEL_ROWS, lanes, f[i][m]);
        }
    }
}

INLINE void qtile(qkind k, int np, int mr, const qjob *q) { q_tiles(k, np, mr, 0, q); }

#elif defined(__aarch64__)
#include "cpu/simd/v_qtile_neon.h"
#else
#include "cpu/simd/v_qtile_avx2.h"
#endif

/* Few rows meet one panel; the smallest of several tiles has three rows. */
#define QTILE(name, np, mr, ...)                                                                                       \
    static void qtile_##name##_##np##_##mr(const qjob *q) { qtile(Q_KIND(name, __VA_ARGS__), np, mr, q); }
#define QTILES_1(name, ...)                                                                                            \
    QTILE(name, 1, 1, __VA_ARGS__)                                                                                     \
    QTILE(name, 1, 2, __VA_ARGS__)                                                                                     \
    QTILE(name, 1, 3, __VA_ARGS__)                                                                                     \
    QTILE(name, 1, 4, __VA_ARGS__) QTILE(name, 1, 5, __VA_ARGS__) QTILE(name, 1, 6, __VA_ARGS__)
#define QTILE_NAMES_1(name)                                                                                            \
    {                                                                                                                  \
        qtile_##name##_1_1, qtile_##name##_1_2, qtile_##name##_1_3, qtile_##name##_1_4, qtile_##name##_1_5,            \
            qtile_##name##_1_6                                                                                         \
    }
#if defined(__AVX512F__)
#define QTILES(name, ...)                                                                                              \
    QTILES_1(name, __VA_ARGS__)                                                                                        \
    QTILE(name, 2, 3, __VA_ARGS__)                                                                                     \
    QTILE(name, 2, 4, __VA_ARGS__) QTILE(name, 2, 5, __VA_ARGS__) QTILE(name, 2, 6, __VA_ARGS__)
#define QTILE_NAMES(name, ...)                                                                                         \
    [PANEL_KIND_##                                                                                                     \
        name] = {QTILE_NAMES_1(name),                                                                                  \
                 {NULL, NULL, qtile_##name##_2_3, qtile_##name##_2_4, qtile_##name##_2_5, qtile_##name##_2_6}},
#else
#define QTILES(name, ...)      QTILES_1(name, __VA_ARGS__)
#define QTILE_NAMES(name, ...) [PANEL_KIND_##name] = {QTILE_NAMES_1(name)},
#endif
PANEL_KIND_LIST(QTILES)
const qtile_fn QTILE_TABLE[PANEL_KINDS][QPANELS][ACT_ROWS] = {PANEL_KIND_LIST(QTILE_NAMES)};

#if defined(__AVX512F__)
/* Kinds that gain by it: 4 bits as they are lose up to 2 %. */
INLINE bool q_joins(qkind k) { return k.bits != 4 || k.code != PANEL_CODE; }
#define QJOIN(name, mr, ...)                                                                                           \
    static void qjoined_##name##_##mr(const qjob *q)                                                                   \
    {                                                                                                                  \
        const qkind k = Q_KIND(name, __VA_ARGS__);                                                                     \
        if (q_joins(k)) q_tiles(k, 1, (mr + 1) / 2, mr / 2, q);                                                        \
    }
#define QJOINS(name, ...)      QJOIN(name, 6, __VA_ARGS__) QJOIN(name, 7, __VA_ARGS__) QJOIN(name, 8, __VA_ARGS__)
#define QJOIN_NAMES(name, ...) {qjoined_##name##_6, qjoined_##name##_7, qjoined_##name##_8},
PANEL_KIND_LIST(QJOINS)
qtile_fn qtile_joined(const panel_format *f, int64_t rows)
{
    static const qtile_fn all[PANEL_KINDS][QJOINED - ACT_ALONE] = {PANEL_KIND_LIST(QJOIN_NAMES)};
    const qkind k = {f->bits, f->block, f->span, f->scale, f->base, f->code, f->zero};
    return rows > ACT_ALONE && rows <= QJOINED && q_joins(k) ? all[f->kind][rows - ACT_ALONE - 1] : NULL;
}
#endif

#endif
