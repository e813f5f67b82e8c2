/* v_matmul.h - MATMUL on sixteen lanes; definition: def_matmul.c.
 *
 * One row: bound by reading the weights. A thread walks its output rows one after the other, so that it reads one
 * sequential stream straight from the mapped file, fetched ahead, AHEAD bytes before its use or by the way that was
 * measured to be fastest (fetch_way.h): four rows at once, as a register tile would need, read at half the speed.
 * Files are mapped in pages of 4 KiB: hardware prefetchers stop at page ends and every page costs a walk of the page
 * tables, so a line of each page is prefetched PAGES_AHEAD bytes before its use, long before the prefetches that need
 * its address. A few rows (up to DIRECT_M): register tiles of
 * TILE_N weight rows x TILE_M activation rows, weights widened in registers. The next TILE_N weight rows are
 * prefetched in the order of memory meanwhile, so the memory still sees one stream. Many rows: bound by multiply-adds.
 * Weights of MATMUL_PANEL_N rows x MATMUL_BLOCK_K are widened to float once and stay in the L1 cache while all
 * activation tiles pass; the partial sums of a block of k are kept in memory (they are the lanes of the contract, so
 * blocking k changes no bit). Tiles hold 4 x 6 registers of sums on AVX-512, 4 x 3 of half width, twice, on AVX2.
 * Activations are copied once per thread into tiles [step][rows][16], which are read in order. v_step.h defines a step
 * along k and its multiplication: 16 float32, or 32 bfloat16 in the same bytes. */
#pragma once
#include "cpu/cpu.h"
#include "cpu/chunk_steal.h"
#include "cpu/matmul_plan.h"
#include "cpu/simd/v_qmatmul.h"
#include "cpu/simd/v_step.h"

enum {
    DIRECT_M = 32,
    CHUNK_BYTES = 128 << 10,
    AHEAD = 12288,
    PAGES_AHEAD = 32768,
    PAGE = 4096,
    TILE_N = MATMUL_TILE_N,
    TILE_M = VREGS == 32 ? 6 : 3,
    BLOCK_K = MATMUL_BLOCK_K / LANES * STEP
};

INLINE int64_t steps_of(int64_t k) { return (k + STEP - 1) / STEP; }

/* Prefetches a line of each page PAGES_AHEAD after these bytes. */
INLINE void touch_pages(fetch_way way, uintptr_t at, uintptr_t bytes)
{
    for (uintptr_t i = PAGES_AHEAD; way != FETCH_NONE && i < PAGES_AHEAD + bytes; i += PAGE)
        prefetch_by(way, (const void *)(at + i));
}

/* One weight row against a packed tile of mr activation rows. */
INLINE void stream_row(dtype t, int mr, fetch_way way, const uint8_t *w, const float *x, int64_t k, float *sum)
{
    v16 a[TILE_M];
    const uintptr_t bytes = t == DTYPE_F32 ? 4 : 2;
    UNROLLED (m, mr) a[m] = v16_zero();
    touch_pages(way, (uintptr_t)w, (uintptr_t)k * bytes);
    int64_t i = 0;
    const int64_t turn = 128 / (int64_t)bytes; /* two lines */
    for (; i + turn <= k; i += turn) {
        const uintptr_t at = (uintptr_t)w + (uintptr_t)i * bytes;
        if (way == FETCH_SPLIT) { /* two streams, then the other two */
            const int line = (int)(at / 128 % 2 * 2);
            prefetch_by(way, (const void *)fetch_split(at + SPLIT_BLOCK, line));
            prefetch_by(way, (const void *)fetch_split(at + SPLIT_BLOCK, line + 1));
        } else {
            prefetch_by(way, (const void *)(at + AHEAD));
            prefetch_by(way, (const void *)(at + AHEAD + 64));
        }
        UNROLL for (int64_t j = 0; j < turn; j += STEP, x += mr * LANES)
        {
            v16 v = step_load(t, w, i + j);
            UNROLLED (m, mr) a[m] = step_dot(v, v16_load(x + m * LANES), a[m]);
        }
    }
    for (; i < k; i += STEP, x += mr * LANES) {
        v16 v = k - i < STEP ? step_load_part(t, w, i, (int)(k - i)) : step_load(t, w, i);
        UNROLLED (m, mr) a[m] = step_dot(v, v16_load(x + m * LANES), a[m]);
    }
    UNROLLED (m, mr) sum[m] = v16_fold(a[m]);
}

typedef void (*stream_fn)(const uint8_t *w, const float *x, int64_t k, float *sum);
#define STREAM(t, mr, way)                                                                                             \
    static void stream_##t##_##mr##_##way(const uint8_t *w, const float *x, int64_t k, float *sum)                     \
    {                                                                                                                  \
        stream_row(DTYPE_##t, mr, FETCH_##way, w, x, k, sum);                                                          \
    }
#define STREAM_WAYS(t) STREAM(t, 1, NEAR) STREAM(t, 1, FAR) STREAM(t, 1, NONE) STREAM(t, 1, SPLIT)
#if VREGS == 32
#define STREAM_TYPE(t)                                                                                                 \
    STREAM_WAYS(t)                                                                                                     \
    STREAM(t, 2, NEAR) STREAM(t, 3, NEAR) STREAM(t, 4, NEAR) STREAM(t, 5, NEAR) STREAM(t, 6, NEAR)
#define STREAM_NAMES(t)                                                                                                \
    {                                                                                                                  \
        stream_##t##_1_NEAR, stream_##t##_2_NEAR, stream_##t##_3_NEAR, stream_##t##_4_NEAR, stream_##t##_5_NEAR,       \
            stream_##t##_6_NEAR                                                                                        \
    }
#else
#define STREAM_TYPE(t) STREAM_WAYS(t) STREAM(t, 2, NEAR) STREAM(t, 3, NEAR)
#define STREAM_NAMES(t)                                                                                                \
    {                                                                                                                  \
        stream_##t##_1_NEAR, stream_##t##_2_NEAR, stream_##t##_3_NEAR                                                  \
    }
#endif
#define STREAM_WAY_NAMES(t)                                                                                            \
    {                                                                                                                  \
        stream_##t##_1_NEAR, stream_##t##_1_FAR, stream_##t##_1_NONE, stream_##t##_1_SPLIT                             \
    }
STREAM_TYPE(F32)
STREAM_TYPE(F16)
STREAM_TYPE(BF16)

/* The body for rows of these weights; one row alone has ways. */
static stream_fn stream_body(const held_weight *w, int64_t rows)
{
    static const stream_fn f32[TILE_M] = STREAM_NAMES(F32), f16[TILE_M] = STREAM_NAMES(F16),
                           bf16[TILE_M] = STREAM_NAMES(BF16);
    static const stream_fn one[][FETCH_WAYS] = {STREAM_WAY_NAMES(F32), STREAM_WAY_NAMES(F16), STREAM_WAY_NAMES(BF16)};
    const int type = w->type == DTYPE_F16 ? 1 : w->type == DTYPE_BF16 ? 2 : 0;
    return rows == 1 ? one[type][w->way[0]] : (type == 1 ? f16 : type == 2 ? bf16 : f32)[rows - 1];
}

/* x: one packed tile of `rows` activation rows. */
static void matmul_stream(const held_weight *w, const float *x, int64_t rows, float *y, const float *bias,
                          float *decoded, int64_t from, int64_t to)
{
    const bool plain = dtype_is_float(w->type);
    const stream_fn fn = stream_body(w, rows);
    for (int64_t n = from; n < to; n++) {
        const uint8_t *row = w->data + (uint64_t)n * w->stride;
        float sum[TILE_M];
        if (!plain) {
            held_row(w, n, decoded);
            row = (const uint8_t *)decoded;
        }
        fn(row, x, w->cols, sum);
        for (int64_t m = 0; m < rows; m++) y[m * w->rows + n] = bias ? sum[m] + bias[n] : sum[m];
    }
}

/* ---- a few rows */

/* Rows of the next tile: full ones, then two of nearly equal size. */
INLINE int tile_rows(int64_t left)
{
    return left <= TILE_M ? (int)left : left < 2 * TILE_M ? (int)(left + 1) / 2 : TILE_M;
}

/* Copies `rows` activation rows into tiles [step][rows of tile][16], one after the other, k padded with zeros. */
static void pack_rows(const float *x, int64_t rows, int64_t k, float *to)
{
    for (int64_t m = 0, mr; m < rows; m += mr) {
        mr = tile_rows(rows - m);
        for (int64_t i = 0; i < k; i += STEP)
            for (int64_t j = 0; j < mr; j++, to += LANES) {
                const uint8_t *from = (const uint8_t *)(x + (m + j) * k);
                v16_store(to, k - i < STEP ? step_load_part(DTYPE_F32, from, i, (int)(k - i))
                                           : step_load(DTYPE_F32, from, i));
            }
    }
}

/* TILE_N weight rows, straight from the file, and x, one packed tile of activation rows. `tail`: the last k mod STEP
 * elements of the four rows, widened and padded. Every step prefetches `lines` cache lines from `next` on, so that the
 * next four rows come in their order in memory. */
typedef struct direct_job {
    const uint8_t *w;
    uint64_t stride;
    const float *tail, *x;
    int64_t k;
    uintptr_t next;
    int lines;
} direct_job;

/* Their whole sums, with mr rows of activations. */
INLINE void direct_sum(dtype t, int mr, direct_job j, float *acc)
{
    const int64_t bytes = t == DTYPE_F32 ? 4 : 2;
    for (int half = 0; half < LANES; half += VREG_LANES) {
        vreg a[TILE_N][TILE_M], v[TILE_M];
        UNROLLED (n, TILE_N)
            UNROLLED (m, mr) a[n][m] = vreg_zero();
        const uint8_t *w0 = j.w + half * bytes, *w2 = w0 + 2 * j.stride;
        const float *xk = j.x + half;
        for (int64_t s = j.k / STEP; s > 0; s--, w0 += STEP * bytes, w2 += STEP * bytes, xk += mr * LANES) {
            for (int i = 0; i < j.lines; i++, j.next += 64) prefetch_near((const void *)j.next);
            UNROLLED (m, mr) v[m] = vreg_load(xk + m * LANES);
            UNROLLED (n, TILE_N) {
                vreg b = vreg_load_step(t, (n < 2 ? w0 : w2) + (n & 1) * j.stride, 0);
                UNROLLED (m, mr) a[n][m] = vreg_dot(b, v[m], a[n][m]);
            }
        }
        if (j.tail) {
            UNROLLED (m, mr) v[m] = vreg_load(xk + m * LANES);
            UNROLLED (n, TILE_N) {
                vreg b = vreg_load(j.tail + n * LANES + half);
                UNROLLED (m, mr) a[n][m] = vreg_dot(b, v[m], a[n][m]);
            }
        }
        UNROLLED (n, TILE_N) {
            UNROLLED (m, mr) vreg_store(acc + (n * mr + m) * LANES + half, a[n][m]);
        }
        j.lines = 0; /* the other half of the lanes reads the same lines */
    }
}

typedef void (*direct_fn)(const direct_job *j, float *acc);
#define DIRECT(t, mr)                                                                                                  \
    static void direct_##t##_##mr(const direct_job *j, float *acc) { direct_sum(DTYPE_##t, mr, *j, acc); }
#if VREGS == 32
#define DIRECT_TYPE(t) DIRECT(t, 1) DIRECT(t, 2) DIRECT(t, 3) DIRECT(t, 4) DIRECT(t, 5) DIRECT(t, 6)
#define DIRECT_NAMES(t)                                                                                                \
    {                                                                                                                  \
        direct_##t##_1, direct_##t##_2, direct_##t##_3, direct_##t##_4, direct_##t##_5, direct_##t##_6                 \
    }
#else
#define DIRECT_TYPE(t) DIRECT(t, 1) DIRECT(t, 2) DIRECT(t, 3)
#define DIRECT_NAMES(t)                                                                                                \
    {                                                                                                                  \
        direct_##t##_1, direct_##t##_2, direct_##t##_3                                                                 \
    }
#endif
DIRECT_TYPE(F32)
DIRECT_TYPE(F16)
DIRECT_TYPE(BF16)

/* Folds a finished tile into y; n of its TILE_N columns exist. */
static void tile_store(const float *acc, int mr, int n, float *y, int64_t y_stride, const float *bias)
{
    for (int m = 0; m < mr; m++, y += y_stride) {
        const float *a = acc + m * LANES;
        int next = mr * LANES;
        v4 s = v16_fold_four(v16_load(a), v16_load(a + next), v16_load(a + 2 * next), v16_load(a + 3 * next));
        if (n == TILE_N) {
            v4_store(y, bias ? v4_add(s, v4_load(bias)) : s);
        } else {
            float out[4];
            v4_store(out, s);
            for (int i = 0; i < n; i++) y[i] = bias ? out[i] + bias[i] : out[i];
        }
    }
}

/* Cache lines of a step over four rows. */
INLINE int step_lines(dtype t) { return (int)dtype_info[t].bytes * TILE_N * STEP / 64; }

/* The number to prefetch per step of a tile, so that all tiles of these rows share them evenly. */
INLINE int tile_lines(dtype t, int64_t rows)
{
    int64_t tiles = (rows + TILE_M - 1) / TILE_M;
    return (int)((step_lines(t) + tiles - 1) / tiles);
}

static void matmul_direct(const held_weight *w, int64_t rows, float *y, const float *bias, const matmul_space *at,
                          int64_t from, int64_t to)
{
    static const direct_fn f32[TILE_M] = DIRECT_NAMES(F32), f16[TILE_M] = DIRECT_NAMES(F16),
                           bf16[TILE_M] = DIRECT_NAMES(BF16);
    const direct_fn *fns = w->type == DTYPE_F16 ? f16 : w->type == DTYPE_BF16 ? bf16 : f32;
    int64_t k = w->cols, apart = steps_of(k) * LANES; /* from row to row of packed activations */
    bool plain = dtype_is_float(w->type);
    int64_t n = from;
    for (; n + TILE_N <= to; n += TILE_N) {
        const uint8_t *four = w->data + (uint64_t)n * w->stride;
        uint64_t stride = w->stride;
        dtype t = w->type;
        float tail[TILE_N * LANES];
        if (!plain) {
            for (int i = 0; i < TILE_N; i++) held_row(w, n + i, at->decoded + i * k);
            four = (const uint8_t *)at->decoded;
            stride = (uint64_t)k * sizeof(float);
            t = DTYPE_F32;
        }
        if (k % STEP)
            for (int i = 0; i < TILE_N; i++)
                v16_store(tail + i * LANES,
                          step_load_part(t, four + (uint64_t)i * stride, k / STEP * STEP, (int)(k % STEP)));
        int lines = tile_lines(t, rows), left = plain ? step_lines(t) : 0;
        uintptr_t next = (uintptr_t)four + TILE_N * stride;
        if (plain) touch_pages(FETCH_NEAR, next, TILE_N * stride);
        for (int64_t m = 0, mr; m < rows; m += mr) {
            mr = tile_rows(rows - m);
            if (left < lines) lines = left;
            const direct_job j = {four, stride, k % STEP ? tail : NULL, at->x + m * apart, k, next, lines};
            fns[mr - 1](&j, at->acc);
            left -= lines;
            next += (uintptr_t)(k / STEP * lines * 64);
            tile_store(at->acc, (int)mr, TILE_N, y + m * w->rows + n, w->rows, bias ? bias + n : NULL);
        }
    }
    for (int64_t m = 0, mr; m < rows && n < to; m += mr) {
        mr = tile_rows(rows - m);
        matmul_stream(w, at->x + m * apart, mr, y + m * w->rows, bias, at->decoded, n, to);
    }
}

/* ---- many rows */

/* Makes steps of k0 … k1 - 1 of n weight rows, in tiles [step][TILE_N][16]; rows up to a multiple of TILE_N are
 * zero. */
INLINE void widen_rows(dtype t, const uint8_t *w, uint64_t stride, int n, int64_t k0, int64_t k1, float *to)
{
    int64_t steps = steps_of(k1 - k0), whole = (k1 - k0) / STEP;
    for (int row = 0; row < (n + TILE_N - 1) / TILE_N * TILE_N; row++) {
        float *at = to + (row / TILE_N * steps * TILE_N + row % TILE_N) * LANES;
        const uint8_t *from = w + (uint64_t)row * stride;
        for (int64_t s = 0; s < steps; s++) {
            v16 v = v16_zero();
            if (row < n && s < whole) v = step_load(t, from, k0 + s * STEP);
            else if (row < n) v = step_load_part(t, from, k0 + s * STEP, (int)((k1 - k0) % STEP));
            v16_store(at + s * TILE_N * LANES, v);
        }
    }
}

/* Prefetches `lines` cache lines of a block of weight rows, a few at a time between tiles: a burst would stall. */
typedef struct block_ahead {
    const uint8_t *at; /* first row */
    uint64_t stride;
    int64_t row_bytes, done, all; /* bytes of a row that are in the block; lines */
} block_ahead;

/* The block that comes after the one that ends at k1: of the same n rows, or the first of the n after them. */
INLINE block_ahead block_after(dtype t, const uint8_t *panel, uint64_t stride, int n, int64_t k, int64_t k1)
{
    const int64_t bytes = t == DTYPE_F32 ? 4 : 2;
    int64_t from = k1 < k ? k1 : 0, to = k - from < BLOCK_K ? k : from + BLOCK_K;
    block_ahead b = {.at = panel + (k1 < k ? 0 : (uint64_t)n * stride) + (uint64_t)(from * bytes), .stride = stride};
    b.row_bytes = (to - from) * bytes;
    b.all = (b.row_bytes + 63) / 64 * n;
    return b;
}

INLINE void block_prefetch(block_ahead *b, int64_t lines)
{
    int64_t each = (b->row_bytes + 63) / 64;
    for (; lines > 0 && b->done < b->all; lines--, b->done++) {
        uintptr_t p = (uintptr_t)b->at + (uintptr_t)(b->done / each) * b->stride + (uintptr_t)(b->done % each * 64);
        prefetch_near((const void *)p);
    }
}

/* Cache lines of the next activation tile that each step of a tile prefetches: the tiles of a panel share them. */
#define NEXT_LINES(mr) (((mr) + MATMUL_PANEL_N / TILE_N - 1) / (MATMUL_PANEL_N / TILE_N))

/* acc[n][m] (+)= partial sums of TILE_N weight rows x mr activation rows over `steps` steps. `next` is prefetched. */
INLINE void tile_sum(int mr, const float *w, const float *x, int64_t steps, bool first, float *acc, const float *next)
{
    for (int half = 0; half < LANES; half += VREG_LANES) {
        vreg a[TILE_N][TILE_M];
        UNROLLED (n, TILE_N) {
            UNROLLED (m, mr) a[n][m] = first ? vreg_zero() : vreg_load(acc + (n * mr + m) * LANES + half);
        }
        const float *wk = w + half, *xk = x + half;
        for (int64_t s = 0; s < steps; s++, wk += TILE_N * LANES, xk += mr * LANES) {
            vreg v[TILE_M];
            UNROLL for (int m = 0; m < NEXT_LINES(mr); m++, next += LANES) prefetch_near((const void *)next);
            UNROLLED (m, mr) v[m] = vreg_load(xk + m * LANES);
            UNROLLED (n, TILE_N) {
                vreg b = vreg_load(wk + n * LANES);
                UNROLLED (m, mr) a[n][m] = vreg_dot(b, v[m], a[n][m]);
            }
        }
        UNROLLED (n, TILE_N) {
            UNROLLED (m, mr) vreg_store(acc + (n * mr + m) * LANES + half, a[n][m]);
        }
    }
}

typedef void (*tile_fn)(const float *w, const float *x, int64_t steps, bool first, float *acc, const float *next);
#define TILE(mr)                                                                                                       \
    static void tile_##mr(const float *w, const float *x, int64_t steps, bool first, float *acc, const float *next)    \
    {                                                                                                                  \
        if (first) tile_sum(mr, w, x, steps, true, acc, next);                                                         \
        else tile_sum(mr, w, x, steps, false, acc, next);                                                              \
    }
TILE(1)
TILE(2)
TILE(3)
#if VREGS == 32
TILE(4)
TILE(5)
TILE(6)
static const tile_fn tile_fns[TILE_M] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
#else
static const tile_fn tile_fns[TILE_M] = {tile_1, tile_2, tile_3};
#endif

static void matmul_panels(const held_weight *w, int64_t rows, float *y, const float *bias, const matmul_space *at,
                          int64_t from, int64_t to)
{
    int64_t k = w->cols, apart = steps_of(k) * LANES;
    bool plain = dtype_is_float(w->type);
    for (int64_t n0 = from; n0 < to; n0 += MATMUL_PANEL_N) {
        int n = to - n0 < MATMUL_PANEL_N ? (int)(to - n0) : MATMUL_PANEL_N;
        const uint8_t *panel = w->data + (uint64_t)n0 * w->stride;
        uint64_t stride = w->stride;
        dtype t = w->type;
        if (!plain) {
            for (int i = 0; i < n; i++) held_row(w, n0 + i, at->decoded + i * k);
            panel = (const uint8_t *)at->decoded;
            stride = (uint64_t)k * sizeof(float);
            t = DTYPE_F32;
        }
        for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K) {
            int64_t k1 = k - k0 < BLOCK_K ? k : k0 + BLOCK_K, steps = steps_of(k1 - k0), done = k0 / STEP * LANES;
            block_ahead soon = block_after(t, panel, stride, n, k, k1);
            int64_t turns = (rows / TILE_M + 1) * ((n + TILE_N - 1) / TILE_N), share = plain ? soon.all / turns + 1 : 0;
            if (t == DTYPE_F16) widen_rows(DTYPE_F16, panel, stride, n, k0, k1, at->w);
            else if (t == DTYPE_BF16) widen_rows(DTYPE_BF16, panel, stride, n, k0, k1, at->w);
            else widen_rows(DTYPE_F32, panel, stride, n, k0, k1, at->w);
            float *acc = at->acc;
            for (int64_t m = 0, mr; m < rows; m += mr) {
                mr = tile_rows(rows - m);
                const float *ahead = at->x + (m + mr) * apart + done * mr; /* this block of k of the next tile */
                for (int i = 0; i < n; i += TILE_N, acc += TILE_N * mr * LANES) {
                    block_prefetch(&soon, share);
                    tile_fns[mr - 1](at->w + i * steps * LANES, at->x + m * apart + done * mr, steps, k0 == 0, acc,
                                     ahead);
                    ahead += steps * NEXT_LINES(mr) * LANES;
                    if (k1 == k)
                        tile_store(acc, (int)mr, n - i < TILE_N ? n - i : TILE_N, y + m * w->rows + n0 + i, w->rows,
                                   bias ? bias + n0 + i : NULL);
                }
            }
        }
    }
}

/* Output rows of a chunk: whole panels, and enough bytes that a jump in memory costs little. */
static int64_t chunk_rows(const held_weight *w)
{
    int64_t n = (CHUNK_BYTES + (int64_t)w->stride - 1) / ((int64_t)w->stride > 0 ? (int64_t)w->stride : 1);
    n = (n + MATMUL_PANEL_N - 1) / MATMUL_PANEL_N * MATMUL_PANEL_N;
    int64_t min = (w->rows + STEAL_MAX - 1) / STEAL_MAX;
    return n > min ? n : min;
}

/* The same for each of `parts` weights like w, so that the number of chunks stays below STEAL_MAX. */
static int64_t chunk_rows_of_parts(const held_weight *w, int64_t parts)
{
    int64_t each = chunk_rows(w);
    while ((w->rows + each - 1) / each > STEAL_MAX / parts) each *= 2;
    return each;
}

/* y [count, w->rows] (+ bias) for the output rows from … to - 1; at->x: the activations, packed. */
static void matmul_rows(const held_weight *w, int64_t count, float *y, const float *bias, const matmul_space *at,
                        int64_t from, int64_t to)
{
    if (count == 1) matmul_stream(w, at->x, 1, y, bias, at->decoded, from, to);
    else if (count <= DIRECT_M) matmul_direct(w, count, y, bias, at, from, to);
    else matmul_panels(w, count, y, bias, at, from, to);
}

static void v_matmul(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    if (arg_info(r, o->in[0])->block) {
        v_qmatmul(r, o, worker, workers);
        return;
    }
    const float *x = arg_at(r, o->in[0]), *bias = arg_at(r, o->in[2]);
    float *y = arg_at(r, o->out), *scratch = arg_scratch(r, worker);
    int64_t rows = arg_rows(r, o->out), each = chunk_rows(w), k = w->cols;
    for (int64_t m = 0, count; m < rows; m += count, x += count * k, y += count * w->rows) {
        count = matmul_block_rows(rows, m);
        chunk_steal d = steal_start(r, worker, workers, (w->rows + each - 1) / each, false);
        matmul_space at = matmul_space_of(scratch, count, k);
        bool packed = false;
        for (int64_t c; (c = steal_next(&d)) >= 0;) {
            int64_t from = c * each, to = from + each < w->rows ? from + each : w->rows;
            if (!packed) pack_rows(x, count, k, at.x);
            packed = true;
            matmul_rows(w, count, y, bias, &at, from, to);
        }
    }
}

/* A slice of weights (w, all of it) for `rows` rows of activations that are 0 at x: what a step costs (cpu_fetch.c). */
static void v_stream(const held_weight *w, int64_t rows, void *x, float *y)
{
    if (!w->packed) {
        matmul_stream(w, x, rows, y, NULL, NULL, 0, w->rows);
        return;
    }
    const panel_format *f = panel_format_of(w->type);
    const qwork k = {.w = w, .x = {x, f->act, rows, w->cols, 0}, .y = y, .ldy = w->rows};
    q_panels(&k, 0, (w->rows + PANEL_ROWS - 1) / PANEL_ROWS, 0, 1);
}
