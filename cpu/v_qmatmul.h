/* v_qmatmul.h - QUANT and the MATMUL of packed weights (tensor/r16.h) with int8 activations; definitions: cpu_qmatmul.c.
 *
 * One body, qtile: one panel of 16 outputs, or two, against a tile of 1 … ACT_ROWS rows. A format contributes only how the next group vectors
 * of a super-tile come into registers. Few rows (one tile) are bound by reading the weights: one panel at a time, one sequential
 * stream a thread, each line fetched AHEAD_Q bytes in front of its use, between multiplications. More rows are bound by the multiplier of
 * bytes, and by the two loads a cycle that feed it: two panels share each activation that is loaded, and each tile fetches its part of the
 * next two panels. Weights are unpacked again for each tile, from the caches, which costs 3 operations a vector at most, so no panel is
 * ever expanded in memory. Rows are taken in blocks of BLOCK_Q, whose activations stay in the L2 cache while all panels pass. */
#ifndef CPU_V_QMATMUL_H
#define CPU_V_QMATMUL_H
#include "cpu/cpu_quant.h"
#include "cpu/cpu_deal.h"
#include "cpu/v16.h"
#include "tensor/act_q8.h"

#include <string.h>

/* QROWS: rows of a tile that the body takes at once; sixteen registers hold four. QPANELS: most panels. */
enum {
    AHEAD_Q = 4096,
    BLOCK_Q = 126,
    CHUNK_Q = 128 << 10,
    QROWS = VREGS == 32 ? ACT_ROWS : 4,
    QPANELS = VREGS == 32 ? 2 : 1
};

/* Rows of a tile against one panel or two. */
typedef struct qjob {
    const uint8_t *panel;
    uint64_t apart; /* bytes from the panel to the second one */
    act_part x;
    int stride; /* rows of the tile; these are QROWS of them at most */
    int64_t supers;
    float *y; /* [rows][ldy], 16 outputs of each panel, n_out of the last */
    int64_t ldy;
    int n_out;
    const float *bias;
    const uint8_t *
        ahead; /* what to fetch: so many lines from there per super-tile (one panel on 32 registers: all of one or none) */
    int n_ahead;
} qjob;

INLINE void q_fetch(const qjob *q, int64_t super)
{
    const uint8_t *at = q->ahead + (uint64_t)(super * q->n_ahead) * R16_LINE;
    for (int l = 0; l < q->n_ahead; l++) _mm_prefetch((const char *)(at + l * R16_LINE), _MM_HINT_T0);
}

#if defined(__AVX512F__)

typedef __m512i qline;
#define Q_LOAD(i)        _mm512_loadu_si512((const void *)(p + R16_LINE * (i)))
#define Q_AND(a, mask)   _mm512_and_si512(a, _mm512_set1_epi8(mask))
/* a | (b & mask) */
#define Q_OR(a, b, mask) _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi8((char)(mask)), 0xf8)
#define Q_RIGHT(a, n)    _mm512_srli_epi16(a, n)
#define Q_LEFT(a, n)     _mm512_slli_epi16(a, n)
#define Q_ZERO()         _mm512_setzero_si512()

#define M11(n)      (n) % 11
#define D11(n)      (n) / 11
#define EIGHT(f, b) f(b), f(b + 1), f(b + 2), f(b + 3), f(b + 4), f(b + 5), f(b + 6), f(b + 7)
#define CODES128(f)                                                                                                    \
    {                                                                                                                  \
        EIGHT(f, 0), EIGHT(f, 8), EIGHT(f, 16), EIGHT(f, 24), EIGHT(f, 32), EIGHT(f, 40), EIGHT(f, 48), EIGHT(f, 56),  \
            EIGHT(f, 64), EIGHT(f, 72), EIGHT(f, 80), EIGHT(f, 88), EIGHT(f, 96), EIGHT(f, 104), EIGHT(f, 112),        \
            EIGHT(f, 120)                                                                                              \
    }
static const uint8_t mod11[128] = CODES128(M11), div11[128] = CODES128(D11);
/* Both codes of each pair: a look-up in 128 bytes, which ignores bit 7. */
INLINE void q_pair(qline pairs, qline *w0, qline *w1)
{
    *w0 = _mm512_permutex2var_epi8(_mm512_loadu_si512(mod11), pairs, _mm512_loadu_si512(mod11 + 64));
    *w1 = _mm512_permutex2var_epi8(_mm512_loadu_si512(div11), pairs, _mm512_loadu_si512(div11 + 64));
}

#else

typedef __m256i qline; /* half a line: p is moved by 32 bytes for rows 8 … 15 */
#define Q_LOAD(i)        _mm256_loadu_si256((const __m256i *)(const void *)(p + R16_LINE * (i)))
#define Q_AND(a, mask)   _mm256_and_si256(a, _mm256_set1_epi8(mask))
#define Q_OR(a, b, mask) _mm256_or_si256(a, Q_AND(b, (char)(mask)))
#define Q_RIGHT(a, n)    _mm256_srli_epi16(a, n)
#define Q_LEFT(a, n)     _mm256_slli_epi16(a, n)
#define Q_ZERO()         _mm256_setzero_si256()
/* p / 11 = p * 187 >> 11 for p < 128; as the upper half of a product of 16 bits. */
INLINE void q_pair(qline pairs, qline *w0, qline *w1)
{
    const __m256i low = _mm256_set1_epi16(0x7f), by = _mm256_set1_epi16(187 << 5);
    __m256i even = _mm256_mulhi_epu16(_mm256_and_si256(pairs, low), by);
    __m256i odd = _mm256_mulhi_epu16(_mm256_and_si256(_mm256_srli_epi16(pairs, 8), low), by);
    *w1 = _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
    __m256i eleven = _mm256_add_epi8(_mm256_add_epi8(*w1, Q_LEFT(*w1, 1)),
                                     Q_LEFT(*w1, 3)); /* codes are below 12: no carry */
    *w0 = _mm256_sub_epi8(Q_AND(pairs, 0x7f), eleven);
}

#endif

/* How many group vectors step j of a super-tile gives, and those vectors, in order. `kept` lives from step to step. */
INLINE int q_width(int bits) { return bits == 8 ? 1 : bits == 6 || bits == 3 || bits == 2 ? 4 : 2; }
INLINE void q_unpack(int bits, const uint8_t *p, int j, qline *kept, qline w[4])
{
    if (bits == 8) {
        w[0] = Q_LOAD(j);
    } else if (bits == 4 || bits == 5) {
        qline v = Q_LOAD(j);
        w[0] = Q_AND(v, 15);
        w[1] = Q_AND(Q_RIGHT(v, 4), 15);
        if (bits == 4) return;
        int i = 2 * (j % 4); /* bit of the line of fifth bits */
        if (i == 0) *kept = Q_LOAD(8 + j / 4);
        w[0] = Q_OR(w[0], i < 4 ? Q_LEFT(*kept, 4 - i) : Q_RIGHT(*kept, i - 4), 16);
        w[1] = Q_OR(w[1], i < 3 ? Q_LEFT(*kept, 3 - i) : Q_RIGHT(*kept, i - 3), 16);
    } else if (bits == 6) {
        qline a = Q_LOAD(3 * j), b = Q_LOAD(3 * j + 1), c = Q_LOAD(3 * j + 2);
        w[0] = Q_AND(a, 63);
        w[1] = Q_AND(b, 63);
        w[2] = Q_AND(c, 63);
        w[3] = Q_AND(Q_RIGHT(a, 6), 3);
        w[3] = Q_OR(w[3], Q_RIGHT(b, 4), 12);
        w[3] = Q_OR(w[3], Q_RIGHT(c, 2), 48);
    } else if (bits == 2 || bits == 3) {
        qline v = Q_LOAD(j);
        w[0] = Q_AND(v, 3);
        w[1] = Q_AND(Q_RIGHT(v, 2), 3);
        w[2] = Q_AND(Q_RIGHT(v, 4), 3);
        w[3] = Q_AND(Q_RIGHT(v, 6), 3);
        if (bits == 2) return;
        if (j % 2 == 0) *kept = Q_LOAD(4 + j / 2);
        for (int i = 0; i < 4; i++) {
            int bit = 4 * (j % 2) + i;
            w[i] = Q_OR(w[i], bit < 2 ? Q_LEFT(*kept, 2 - bit) : Q_RIGHT(*kept, bit - 2), 4);
        }
    } else {
        qline v;
        if (j == 0) *kept = Q_ZERO();
        if (j < 7) {
            v = Q_LOAD(j);
            *kept = Q_OR(*kept, Q_RIGHT(v, 7 - j), 1 << j);
        } else {
            v = *kept;
        }
        q_pair(v, &w[0], &w[1]);
    }
}

INLINE int32_t q_four(const int8_t *code) /* four codes as one word */
{
    int32_t v;
    memcpy(&v, code, 4);
    return v;
}

#if defined(__AVX512F__)

/* Two chains of sums for the outputs of few rows: one alone would wait for itself. */
INLINE void qtile(int bits, int block, int lines, int zero, int base, int np, int mr, const qjob *q)
{
    const int blocks = R16_K / block, width = q_width(bits), steps = 16 / width / blocks, chains = np * mr <= 6 ? 2 : 1;
    const uint8_t *panel = q->panel, *ahead = q->ahead;
    const int8_t *code = q->x.code;
    const float *scale = q->x.scale, *total = q->x.total;
    __m512 f[2][ACT_ROWS];
    UNROLL for (int i = 0; i < np; i++) { UNROLL for (int m = 0; m < mr; m++) f[i][m] = _mm512_setzero_ps(); }
    for (int64_t s = 0; s < q->supers; s++, panel += lines * R16_LINE, ahead += lines * R16_LINE) {
        qline kept[2] = {Q_ZERO(), Q_ZERO()};
        if (np == 2) q_fetch(q, s);
        UNROLL for (int b = 0; b < blocks; b++)
        {
            __m512i a[2][ACT_ROWS][2];
            UNROLL for (int i = 0; i < np; i++)
            {
                UNROLL for (int m = 0; m < mr; m++) a[i][m][0] = a[i][m][1] = Q_ZERO();
            }
            UNROLL for (int j = 0; j < steps; j++)
            {
                qline w[2][4];
                int at = b * steps + j, line = at * lines / (steps * blocks),
                    next = (at + 1) * lines / (steps * blocks);
                UNROLL for (int i = 0; i < np; i++)
                {
                    const uint8_t *p = panel + i * q->apart;
                    q_unpack(bits, p, at, &kept[i], w[i]);
                }
                if (np == 1 && q->n_ahead)
                    UNROLL for (int l = line; l < next; l++)
                        _mm_prefetch((const char *)(ahead + R16_LINE * l), _MM_HINT_T0);
                UNROLL for (int v = 0; v < width; v++)
                {
                    UNROLL for (int m = 0; m < mr; m++)
                    {
                        int g = j * width + v, c = g % chains;
                        __m512i x = _mm512_set1_epi32(q_four(code + (g * mr + m) * 4));
                        UNROLL for (int i = 0; i < np; i++) a[i][m][c] = _mm512_dpbusd_epi32(a[i][m][c], w[i][v], x);
                    }
                }
            }
            UNROLL for (int i = 0; i < np; i++)
            {
                const uint8_t *d = panel + i * q->apart + lines * R16_LINE - blocks * 32 * (1 + base) + 32 * b;
                __m512 dw = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)d));
                __m512 mw = base ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(d + 32 * blocks)))
                                 : _mm512_mul_ps(_mm512_set1_ps((float)zero), dw);
                UNROLL for (int m = 0; m < mr; m++)
                {
                    __m512i sum = chains == 2 ? _mm512_add_epi32(a[i][m][0], a[i][m][1]) : a[i][m][0];
                    f[i][m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(dw, _mm512_set1_ps(scale[m])),
                                              f[i][m]);
                    f[i][m] = _mm512_fmadd_ps(mw, _mm512_set1_ps(total[m]), f[i][m]);
                }
            }
            code += block * mr;
            scale += mr;
            total += mr;
        }
    }
    UNROLL for (int i = 0; i < np; i++)
    {
        __mmask16 k = i + 1 < np ? 0xffff : (__mmask16)((1u << q->n_out) - 1);
        UNROLL for (int m = 0; m < mr; m++)
        {
            if (q->bias) f[i][m] = _mm512_add_ps(f[i][m], _mm512_maskz_loadu_ps(k, q->bias + i * R16_ROWS));
            _mm512_mask_storeu_ps(q->y + m * q->ldy + i * R16_ROWS, k, f[i][m]);
        }
    }
}

#else

/* Without a multiplier of bytes into words of 32 bits: pairs into 16 bits, as many sums as fit there, then pairs of those. Codes of 8 bits
 * are taken as two nibbles, because a pair of their products does not fit. */
INLINE void qtile(int bits, int block, int lines, int zero, int base, int np, int mr, const qjob *q)
{
    (void)np;
    const int blocks = R16_K / block, width = q_width(bits), steps = 16 / width / blocks;
    const int fits = bits == 6 ? 2 : bits == 5 ? 4 : 8; /* sums of pairs below 2^15 */
    const uint8_t *panel = q->panel;
    const int stride = q->stride;
    const int8_t *code = q->x.code;
    const float *scale = q->x.scale, *total = q->x.total;
    const __m256i one = _mm256_set1_epi16(1);
    __m256 f[2][QROWS];
    for (int m = 0; m < mr; m++) f[0][m] = f[1][m] = _mm256_setzero_ps();
    for (int64_t s = 0; s < q->supers; s++, panel += lines * R16_LINE) {
        const uint8_t *d = panel + lines * R16_LINE - blocks * 32 * (1 + base);
        qline kept[2] = {Q_ZERO(), Q_ZERO()};
        q_fetch(q, s);
        UNROLL for (int b = 0; b < blocks; b++)
        {
            UNROLL for (int h = 0; h < 2; h++)
            {
                const uint8_t *p = panel + 32 * h;
                __m256i a[QROWS], low[QROWS], high[QROWS];
                UNROLL for (int m = 0; m < mr; m++) a[m] = low[m] = high[m] = Q_ZERO();
                UNROLL for (int j = 0; j < steps; j++)
                {
                    qline w[4];
                    q_unpack(bits, p, b * steps + j, &kept[h], w);
                    UNROLL for (int v = 0; v < width; v++)
                    {
                        int g = j * width + v;
                        UNROLL for (int m = 0; m < mr; m++)
                        {
                            __m256i x = _mm256_set1_epi32(q_four(code + (g * stride + m) * 4));
                            if (bits == 8) {
                                low[m] = _mm256_add_epi16(low[m], _mm256_maddubs_epi16(Q_AND(w[v], 15), x));
                                high[m] = _mm256_add_epi16(high[m],
                                                           _mm256_maddubs_epi16(Q_AND(Q_RIGHT(w[v], 4), 15), x));
                            } else {
                                low[m] = _mm256_add_epi16(low[m], _mm256_maddubs_epi16(w[v], x));
                            }
                            if (g % fits != fits - 1) continue;
                            a[m] = _mm256_add_epi32(a[m], _mm256_madd_epi16(low[m], one));
                            low[m] = Q_ZERO();
                            if (bits != 8) continue;
                            a[m] = _mm256_add_epi32(a[m], _mm256_slli_epi32(_mm256_madd_epi16(high[m], one), 4));
                            high[m] = Q_ZERO();
                        }
                    }
                }
                __m256 dw = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(d + 32 * b + 16 * h)));
                UNROLL for (int m = 0; m < mr; m++) f[h][m] = _mm256_fmadd_ps(
                    _mm256_cvtepi32_ps(a[m]), _mm256_mul_ps(dw, _mm256_set1_ps(scale[m])), f[h][m]);
                __m256 mw = base ? _mm256_cvtph_ps(
                                       _mm_loadu_si128((const __m128i *)(const void *)(d + 32 * (blocks + b) + 16 * h)))
                                 : _mm256_mul_ps(_mm256_set1_ps((float)zero), dw);
                UNROLL for (int m = 0; m < mr; m++) f[h][m] = _mm256_fmadd_ps(mw, _mm256_set1_ps(total[m]), f[h][m]);
            }
            code += block * stride;
            scale += stride;
            total += stride;
        }
    }
    for (int m = 0; m < mr; m++) {
        v16 v = V16(f[0][m], f[1][m]);
        if (q->bias) v = v16_add(v, v16_load_part(q->bias, q->n_out));
        v16_store_part(q->y + m * q->ldy, v, q->n_out);
    }
}

#endif

typedef void (*qtile_fn)(const qjob *q);
/* Few rows meet one panel; the smallest of several tiles has three rows. */
#define QTILE(id, np, mr, ...)                                                                                         \
    static void qtile_##id##_##np##_##mr(const qjob *q) { qtile(__VA_ARGS__, np, mr, q); }
#if defined(__AVX512F__)
#define QTILES(id, ...)                                                                                                \
    QTILE(id, 1, 1, __VA_ARGS__)                                                                                       \
    QTILE(id, 1, 2, __VA_ARGS__)                                                                                       \
    QTILE(id, 1, 3, __VA_ARGS__)                                                                                       \
    QTILE(id, 1, 4, __VA_ARGS__)                                                                                       \
    QTILE(id, 1, 5, __VA_ARGS__)                                                                                       \
    QTILE(id, 1, 6, __VA_ARGS__)                                                                                       \
    QTILE(id, 2, 3, __VA_ARGS__)                                                                                       \
    QTILE(id, 2, 4, __VA_ARGS__) QTILE(id, 2, 5, __VA_ARGS__) QTILE(id, 2, 6, __VA_ARGS__)
#define QTILE_NAMES(id, ...)                                                                                           \
    [DTYPE_##id] = {                                                                                                   \
        {qtile_##id##_1_1, qtile_##id##_1_2, qtile_##id##_1_3, qtile_##id##_1_4, qtile_##id##_1_5, qtile_##id##_1_6},  \
        {NULL, NULL, qtile_##id##_2_3, qtile_##id##_2_4, qtile_##id##_2_5, qtile_##id##_2_6}},
#else
#define QTILES(id, ...)                                                                                                \
    QTILE(id, 1, 1, __VA_ARGS__)                                                                                       \
    QTILE(id, 1, 2, __VA_ARGS__) QTILE(id, 1, 3, __VA_ARGS__) QTILE(id, 1, 4, __VA_ARGS__)
#define QTILE_NAMES(id, ...) [DTYPE_##id] = {{qtile_##id##_1_1, qtile_##id##_1_2, qtile_##id##_1_3, qtile_##id##_1_4}},
#endif
R16_LIST(QTILES)
static const qtile_fn qtile_fns[DTYPE_COUNT][QPANELS][QROWS] = {R16_LIST(QTILE_NAMES)};

/* A matrix, rows of activations that it meets, and where the results go. */
typedef struct qwork {
    const held_weight *w;
    uint8_t *x; /* act_q8.h, blocks of `block` */
    int block;
    int64_t rows;
    float *y; /* [rows][ldy] */
    int64_t ldy;
    const float *bias;
} qwork;

/* Panels from … to - 1 of the matrix against tiles t0 … t1 - 1 of the rows. */
static void q_panels(const qwork *k, int64_t from, int64_t to, int64_t t0, int64_t t1)
{
    const held_weight *w = k->w;
    bool alone = act_tiles(k->rows) == 1;
    qjob q = {.apart = w->stride, .supers = (w->cols + R16_K - 1) / R16_K, .ldy = k->ldy};
    int64_t lines = (int64_t)w->stride / R16_LINE / q.supers;
    for (int64_t n = from, np; n < to; n += np) {
        np = !alone && QPANELS == 2 && n + 2 <= to ? 2 : 1;
        int64_t left = w->rows - (n + np - 1) * R16_ROWS; /* outputs from the last of these panels on */
        const uint8_t *panel = w->data + (uint64_t)n * w->stride;
        /* lines of the next panels that each tile fetches at each of its steps; alone, a tile fetches its own */
        int64_t share = alone ? lines : (np * lines + t1 - t0 - 1) / (t1 - t0);
        q.ahead = alone ? (const uint8_t *)((uintptr_t)panel + AHEAD_Q) : panel + (uint64_t)np * w->stride;
        for (int64_t t = t0; t < t1; t++) {
            act_tile tile = act_tile_at(k->rows, t);
            bool fetch = (t - t0) * share < np * lines && (alone || left > R16_ROWS);
            q.panel = panel;
            q.x = act_parts(k->x, tile, w->cols, k->block);
            q.stride = tile.rows;
            q.y = k->y + tile.row0 * k->ldy + n * R16_ROWS;
            q.n_out = left < R16_ROWS ? (int)left : R16_ROWS;
            q.bias = k->bias ? k->bias + n * R16_ROWS : NULL;
            q.n_ahead = fetch ? (int)share : 0;
            for (int m = 0; m < tile.rows; m += QROWS) {
                int count = tile.rows - m < QROWS ? tile.rows - m : QROWS;
                qtile_fns[w->type][np - 1][count - 1](&q);
                q.n_ahead = 0;
                q.x = (act_part){q.x.code + 4 * QROWS, q.x.scale + QROWS, q.x.total + QROWS};
                q.y += QROWS * q.ldy;
            }
            if (fetch && !alone) q.ahead += (uint64_t)(share * q.supers) * R16_LINE;
        }
    }
}

/* Panels that are dealt out together. */
static int64_t q_chunk(const held_weight *w, int64_t panels)
{
    int64_t each = CHUNK_Q / (int64_t)w->stride + 1, least = (panels + DEAL_MAX - 1) / DEAL_MAX;
    if (each < least) each = least;
    return (each + QPANELS - 1) / QPANELS * QPANELS;
}

static void v_qmatmul(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    qwork k = {.w = w,
               .x = (uint8_t *)arg_at(r, o->in[0]),
               .block = arg_info(r, o->in[0])->block,
               .rows = arg_rows(r, o->out),
               .y = arg_at(r, o->out),
               .ldy = w->rows,
               .bias = arg_at(r, o->in[2])};
    int64_t tiles = act_tiles(k.rows), panels = (w->rows + R16_ROWS - 1) / R16_ROWS, each = q_chunk(w, panels);
    for (int64_t t0 = 0; t0 < tiles; t0 += BLOCK_Q / ACT_ROWS) {
        int64_t t1 = t0 + BLOCK_Q / ACT_ROWS < tiles ? t0 + BLOCK_Q / ACT_ROWS : tiles;
        deal d = deal_start(r, worker, workers, (panels + each - 1) / each, false);
        for (int64_t c; (c = deal_next(&d)) >= 0;)
            q_panels(&k, c * each, (c + 1) * each < panels ? (c + 1) * each : panels, t0, t1);
    }
}

/* ---- activations */

/* Sixteen floats, whole numbers of at most 127, as bytes. */
INLINE void v16_store_i8(int8_t *to, v16 v)
{
#if defined(__AVX512F__)
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
#else
    __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi));
    both = _mm256_permute4x64_epi64(both, 0xd8);
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
#endif
}

/* act_encode on vectors; blocks that reach beyond the row, or hold a value that is not finite, are left to it. */
INLINE void act_block(const float *x, int64_t n, int block, int8_t *code, float *scale, float *total)
{
    v16 most = v16_zero(), odd = v16_zero();
    for (int i = 0; i < block && n == block; i += LANES) {
        v16 v = v16_load(x + i);
        most = v16_max(v16_abs(v), most);
        odd = v16_fma(v, v16_zero(), odd);
    }
    if (n < block || !(v16_fold(odd) == 0)) {
        act_encode(x, n, block, code, scale, total);
        return;
    }
    float top = v16_max_lane(most), inverse = top >= ACT_TINY ? 127 / top : 0;
    *scale = top >= ACT_TINY ? top / 127 : 0;
    int32_t s = 0;
    for (int i = 0; i < block; i += LANES) v16_store_i8(code + i, v16_mul(v16_load(x + i), v16_all(inverse)));
    for (int i = 0; i < block; i++) s += code[i];
    *total = *scale * (float)s;
}

static void v_quant(const run *r, const op *o, int worker, int workers)
{
    quant_rows(r, o, worker, workers, act_block);
}

#endif
