/* v_qtile.h - the body of MATMUL for packed weights: a tile of 1 … ACT_ROWS rows of activations against one panel of
 * 16 outputs, or two. The kind of the format (tensor/panel.h) is known at compile time; zero, table and factor of
 * the format come with the job.
 *
 * A body (q_pass; one file an instruction set) goes along the panel by tiles of 64 k, in phases of the same names
 * everywhere:
 *
 *     q_next_span      finds the tail of the next span; its scales of two levels are loaded, its lines prefetched
 *     q_start_tile     loads the picks of 64 k; two levels: clears the sums of the tile
 *     q_start_block    clears the sums of products of a block; they begin at the zero times the sum of its activations
 *     q_unpack_step    makes group vectors of some lines of codes (v_qline.h), and looks levels up
 *     q_multiply_step  adds their products with the activations of each row
 *     q_scale_block    adds the sums times scales to the results; two levels: times sub-scales, to the sums of the tile
 *     q_scale_tile     two levels: adds the tile's sums times its scale, and minima times sums of activations
 *     q_store          adds the bias, and stores
 *
 * A zero costs no multiplication: it is a power of two, so a shift of minus the sum of the block's activations
 * brings it in. Minima, as pairs of 16 bits, are multiplied by sums of activations, two blocks at once. Where sums
 * of a block fit in 16 bits, one instruction applies a sub-scale and adds; with AVX2 it replaces the addition of
 * pairs, and costs nothing. */
#pragma once
#include "cpu/simd/qtile.h"
#include "cpu/simd/v_qline.h"

/* Number of prefetches for `lines` lines of weights; and the address of prefetch `line`, where `ahead` is the address
 * of the first line plus the distance of the way. */
INLINE int q_fetched(fetch_way way, int lines)
{
    return way == FETCH_NONE    ? 0
           : way == FETCH_SPLIT ? (lines + SPLIT_STREAMS - 1) / SPLIT_STREAMS * SPLIT_STREAMS
                                : lines;
}
/* Places between the multiplications where that is done. Additions are pinned there also where nothing is fetched. */
INLINE int q_pinned(fetch_way way, int lines) { return way == FETCH_NONE ? lines : q_fetched(way, lines); }
INLINE const uint8_t *q_ahead(fetch_way way, const uint8_t *ahead, int line)
{
    return way == FETCH_SPLIT ? (const uint8_t *)fetch_split((uintptr_t)ahead, line) : ahead + line * PANEL_LINE;
}

INLINE void q_fetch(fetch_way way, const qjob *q, int64_t super)
{
    const uint8_t *at = q->ahead + (uint64_t)(super * q->n_ahead) * PANEL_LINE;
    for (int l = 0; l < q_fetched(way, q->n_ahead); l++) prefetch_by(way, q_ahead(way, at, l));
}

/* A row of PANEL_KIND_LIST, and its derived properties. */
typedef struct qkind {
    int bits, block, span, scale, base, code, zero;
} qkind;
#define Q_KIND(name, ...) ((qkind){__VA_ARGS__})

INLINE bool q_two(qkind k) { return k.scale == PANEL_SUB8 || k.scale == PANEL_SUB4; }
INLINE int q_act(qkind k) { return PANEL_ACT(k.bits, k.block, k.scale); }
/* Sums of parts of row m's codes, from those of row 0; only blocks of 64 have them. */
INLINE int16_t *q_subsums_of(qkind k, int16_t *neg_subsums, int m)
{
    return q_act(k) == 64 ? neg_subsums + m * ACT_SUBSUMS : NULL;
}
/* Number of k whose products are summed as integers. */
INLINE int q_block(qkind k) { return k.block < q_act(k) ? k.block : q_act(k); }
INLINE bool q_picks(qkind k) { return k.code == PANEL_PICK8 || k.code == PANEL_PICK16; }
/* Lines of picks at the beginning of the tail of a span of so many tiles. Picks of 3 bits have scales above them, in
 * the same words. */
INLINE int q_pick_lines(qkind k, int tiles)
{
    return k.code == PANEL_PICK8 ? tiles : k.code == PANEL_PICK16 ? (tiles + 1) / 2 : 0;
}
INLINE int q_code_lines(qkind k) { return k.bits ? 2 * k.bits : 7; }

/* Bits by which minus the sum of activations is shifted to be the zero times the sum. */
INLINE int q_shift(qkind k) { return __builtin_ctz((unsigned)-k.zero); }

/* Minus the sums of 32 or 16 codes of a row, two of them in one word: pair `p` of the 64 k. */
INLINE int32_t q_subsums(const int16_t *row, int block, int p)
{
    int32_t v;
    memcpy(&v, row + (block == 32 ? 0 : 2) + 2 * p, 4);
    return v;
}

/* Where a body stands in a panel. Passed by value, apart from the registers, so that the compiler knows the range of
 * t. */
typedef struct qplace {
    const uint8_t *lines, *ahead; /* code lines of a tile of 64 k; lines to prefetch meanwhile */
    const uint8_t *tail, *subs;   /* tail of the span; two levels: sub-scales of the tile */
    int tiles, t;                 /* of the span; this one */
} qplace;

/* The span that begins here, where `left` tiles are left; the tile's sub-scales. */
INLINE qplace q_next_span(qkind k, qplace at, int64_t left)
{
    at.tiles = k.span == PANEL_K ? 1 : left < k.span / PANEL_K ? (int)left : k.span / PANEL_K;
    at.tail = at.lines + at.tiles * q_code_lines(k) * PANEL_LINE;
    return at;
}
INLINE const uint8_t *q_subs_at(qkind k, qplace at)
{
    return at.tail + (k.base ? 64 : 32) + at.t * (PANEL_K / q_block(k)) * PANEL_ROWS;
}

#if !defined(__aarch64__)
/* A prefetch that stays between the additions to a sum: the compiler gathers plain ones into bursts, in any order. */
INLINE void q_prefetch(fetch_way way, const uint8_t *at, qline *sum)
{
    if (way == FETCH_NEAR || way == FETCH_SPLIT) __asm__ volatile("prefetcht0 %1" : "+v"(*sum) : "m"(*at));
    if (way == FETCH_FAR) __asm__ volatile("prefetcht2 %1" : "+v"(*sum) : "m"(*at));
    if (way == FETCH_NONE) __asm__ volatile("" : "+v"(*sum)); /* additions stay in their places, too */
}

/* The page PAGES_AHEAD_Q further on. A prefetch waits for the translation of its address, and in a mapped file every
 * 4 KiB have their own: one or two rows, whose only limit is memory, load it early by prefetching a line of the
 * page. */
enum { PAGE_Q = 4096, PAGES_AHEAD_Q = 32768, PAGES_ROWS = 2 };
INLINE const uint8_t *q_page(const uint8_t *at)
{
    return (const uint8_t *)((uintptr_t)at / PAGE_Q * PAGE_Q + PAGES_AHEAD_Q);
}
#endif

#if defined(__AVX512F__)
#include "cpu/simd/v_qtile_avx512.h"
#elif defined(__aarch64__)
#include "cpu/simd/v_qtile_neon.h"
#else
#include "cpu/simd/v_qtile_avx2.h"
#endif

/* Few rows meet one panel; the smallest of several tiles has three rows. */
#define QTILE(name, np, mr, ...)                                                                                       \
    static void qtile_##name##_##np##_##mr(const qjob *q) { qtile(Q_KIND(name, __VA_ARGS__), np, mr, FETCH_NEAR, q); }
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

/* The bodies that stream, by the ways other than FETCH_NEAR. */
#define QSTREAM(name, mr, way, ...)                                                                                    \
    static void qstream_##name##_##mr##_##way(const qjob *q)                                                           \
    {                                                                                                                  \
        qtile(Q_KIND(name, __VA_ARGS__), 1, mr, FETCH_##way, q);                                                       \
    }
#define QSTREAM_WAYS(name, mr, ...)                                                                                    \
    QSTREAM(name, mr, FAR, __VA_ARGS__) QSTREAM(name, mr, NONE, __VA_ARGS__) QSTREAM(name, mr, SPLIT, __VA_ARGS__)
#define QSTREAM_WAY_NAMES(name, mr)                                                                                    \
    {                                                                                                                  \
        qstream_##name##_##mr##_FAR, qstream_##name##_##mr##_NONE, qstream_##name##_##mr##_SPLIT                       \
    }
#if QSTREAM_ROWS == 2
#define QSTREAMS(name, ...)      QSTREAM_WAYS(name, 1, __VA_ARGS__) QSTREAM_WAYS(name, 2, __VA_ARGS__)
#define QSTREAM_NAMES(name, ...) [PANEL_KIND_##name] = {QSTREAM_WAY_NAMES(name, 1), QSTREAM_WAY_NAMES(name, 2)},
#else
#define QSTREAMS(name, ...)      QSTREAM_WAYS(name, 1, __VA_ARGS__)
#define QSTREAM_NAMES(name, ...) [PANEL_KIND_##name] = {QSTREAM_WAY_NAMES(name, 1)},
#endif
PANEL_KIND_LIST(QSTREAMS)
const qtile_fn QSTREAM_TABLE[PANEL_KINDS][QSTREAM_ROWS][FETCH_WAYS - 1] = {PANEL_KIND_LIST(QSTREAM_NAMES)};

#if defined(__AVX512F__)
/* Kinds that gain by it: 4 bits without a table lose up to 2 %. */
INLINE bool q_joins(qkind k) { return k.bits != 4 || k.code != PANEL_CODE; }
#define QJOIN(name, mr, ...)                                                                                           \
    static void qjoined_##name##_##mr(const qjob *q)                                                                   \
    {                                                                                                                  \
        const qkind k = Q_KIND(name, __VA_ARGS__);                                                                     \
        if (q_joins(k)) q_pass((qshape){k, 1, (mr + 1) / 2, mr / 2, FETCH_NEAR}, q);                                   \
    }
#define QJOINS(name, ...)      QJOIN(name, 6, __VA_ARGS__) QJOIN(name, 7, __VA_ARGS__) QJOIN(name, 8, __VA_ARGS__)
#define QJOIN_NAMES(name, ...) [PANEL_KIND_##name] = {qjoined_##name##_6, qjoined_##name##_7, qjoined_##name##_8},
PANEL_KIND_LIST(QJOINS)
qtile_fn qtile_joined(const panel_format *f, int64_t rows)
{
    static const qtile_fn all[PANEL_KINDS][QJOINED - ACT_ALONE] = {PANEL_KIND_LIST(QJOIN_NAMES)};
    const qkind k = {f->bits, f->block, f->span, f->scale, f->base, f->code, f->zero};
    return rows > ACT_ALONE && rows <= QJOINED && q_joins(k) ? all[f->kind][rows - ACT_ALONE - 1] : NULL;
}
#endif
