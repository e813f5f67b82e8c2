/* qmatmul.cuh - products of packed weights (tensor/panel.h) with int8 activations, in the bits of ops/def_qmatmul.c.
 *
 * A block of threads has a panel, that is 16 outputs. Sums over integers are exact in any order: a half warp takes a
 * tile of 64 columns, lane r its row r of each line, four products at a time. What follows in floats is one chain over
 * the row; the half warps write its operands, a pair for each fused multiply-add, to shared memory, and a thread for
 * each output and row of activations walks them upwards. So the bits are those of the definition for any number of
 * threads.
 *
 * Bound: bytes of weights over the read bandwidth. */
#pragma once
#include "cuda/cuda_args.h"

#include "src/tensor/act_q8.h"
#include "src/tensor/panel_tail.h"

enum { QMAT_WARPS = QMAT_THREADS / 32, QMAT_PAIRS = 4096 }; /* pairs in shared memory: 32 KB */

/* Four products of unsigned codes, or of signed levels, with signed codes of activations. */
__device__ __forceinline__ int32_t dot_codes(uint32_t w, uint32_t x, int32_t sum)
{
    int32_t to;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(to) : "r"(w), "r"(x), "r"(sum));
    return to;
}
__device__ __forceinline__ int32_t dot_levels(uint32_t w, uint32_t x, int32_t sum)
{
    int32_t to;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(to) : "r"(w), "r"(x), "r"(sum));
    return to;
}

/* What is known of a kind at compile time: a row of PANEL_KIND_LIST. */
template <int BITS, int BLOCK, int SPAN, int SCALE, int BASE, int CODE, int ZERO> struct qkind {
    static constexpr int bits = BITS, block = BLOCK, span = SPAN, scale = SCALE, base = BASE, code = CODE, zero = ZERO;
    static constexpr int act = PANEL_ACT(BITS, BLOCK, SCALE);
    static constexpr bool two = SCALE == PANEL_SUB8 || SCALE == PANEL_SUB4, looks = CODE != PANEL_CODE,
                          picks = CODE == PANEL_PICK8 || CODE == PANEL_PICK16;
    static constexpr int lines = BITS ? 2 * BITS : 7, tiles = SPAN / PANEL_K; /* of a tile; of a span */
    static constexpr int pick_weights = CODE == PANEL_PICK8 ? 8 : 16, pick_bits = BITS == 4 ? 3 : 4;
    static constexpr int words = picks ? SPAN / (8 * pick_weights) : 0;
    static constexpr bool scale_in_word = picks && BITS == 4;
    static constexpr int scale_bytes = SCALE == PANEL_F32 ? 4 : SCALE == PANEL_F16 ? 2 : 1;
    static constexpr int row_bytes = SCALE == PANEL_SUB8   ? (BASE != PANEL_NONE ? 4 + 2 * (SPAN / BLOCK) : 2 + SPAN / BLOCK)
                                     : SCALE == PANEL_SUB4 ? 4 + SPAN / BLOCK
                                                           : SPAN / BLOCK * (scale_bytes + (BASE != PANEL_NONE ? 2 : 0));
    static constexpr int tail = words + (scale_in_word ? 0 : (row_bytes * PANEL_ROWS + PANEL_LINE - 1) / PANEL_LINE);
    static constexpr int apart = BLOCK < act ? BLOCK : act;             /* columns of one sum */
    static constexpr int pairs = two ? 1 : PANEL_K / apart * (BASE ? 2 : 1); /* of a tile */
    static constexpr int sums = PANEL_K / apart;
};

/* The words of one row in the lines of a tile, and the four codes of group g. */
template <class K> struct qtile_words {
    uint32_t line[K::lines];

    __device__ __forceinline__ void load(const uint8_t *tile, int r)
    {
#pragma unroll
        for (int i = 0; i < K::lines; i++) line[i] = __ldg((const uint32_t *)(tile + i * PANEL_LINE) + r);
    }
    __device__ __forceinline__ uint32_t seventh() const /* the pairs whose bits are spread over the lines */
    {
        uint32_t p = 0;
#pragma unroll
        for (int j = 0; j < 7 && j < K::lines; j++) p |= (line[j] >> 7 & 0x01010101u) << j;
        return p;
    }
    __device__ __forceinline__ uint32_t codes(int g) const
    {
        if constexpr (K::bits == 8) return line[g];
        if constexpr (K::bits == 4) return line[g / 2] >> g % 2 * 4 & 0x0f0f0f0fu;
        if constexpr (K::bits == 5)
            return (line[g / 2] >> g % 2 * 4 & 0x0f0f0f0fu) | (line[8 + g / 8] >> g % 8 & 0x01010101u) << 4;
        if constexpr (K::bits == 6) {
            if (g % 4 < 3) return line[g / 4 * 3 + g % 4] & 0x3f3f3f3fu;
            uint32_t p = 0;
#pragma unroll
            for (int k = 0; k < 3; k++) p |= (line[g / 4 * 3 + k] >> 6 & 0x03030303u) << 2 * k;
            return p;
        }
        if constexpr (K::bits == 3)
            return (line[g / 4] >> g % 4 * 2 & 0x03030303u) | (line[4 + g / 8] >> g % 8 & 0x01010101u) << 2;
        if constexpr (K::bits == 2) return line[g / 4] >> g % 4 * 2 & 0x03030303u;
        if constexpr (K::bits == 1) return (line[g / 8] >> g % 8 & 0x01010101u) << 1;
        const uint32_t p = g < 14 ? line[g / 2] & 0x7f7f7f7fu : seventh();
        /* p / 11 of each byte up to 120, two at a time */
        const uint32_t even = ((p & 0x00ff00ffu) * 187u >> 11) & 0x000f000fu,
                       odd = ((p >> 8 & 0x00ff00ffu) * 187u >> 11) & 0x000f000fu;
        const uint32_t high = even | odd << 8;
        return g % 2 ? high : p - 11u * high;
    }
};

__device__ __forceinline__ float half_of(const uint8_t *at)
{
    return half_float(*(const uint16_t *)at);
}

/* Scale of block b of the span, one level: as panel_strip.c reads it. */
template <class K> __device__ __forceinline__ float qscale(const uint8_t *scales, const uint8_t *tail, int b, int r)
{
    if constexpr (K::scale_in_word) return half_float((uint16_t)(tail[(b * PANEL_ROWS + r) * 4 + 3] << 7));
    const uint8_t *at = scales + (b * PANEL_ROWS + r) * K::scale_bytes;
    if constexpr (K::scale == PANEL_F16) return half_of(at);
    if constexpr (K::scale == PANEL_E8M0) return ldexpf(1, *at - 128);
    if constexpr (K::scale == PANEL_E5M3) return half_float((uint16_t)(*at << 7));
    return *(const float *)at;
}

/* A tile for one row of activations: sums over `apart` columns of products, and of the activations alone. */
template <class K> struct qsums {
    int32_t product[K::sums], plain[K::sums];
};

template <class K>
__device__ __forceinline__ void qtile_sums(const qtile_words<K> &w, const uint32_t *x, const int8_t *level,
                                           const uint8_t *tail, int in_span, int r, qsums<K> &to)
{
#pragma unroll
    for (int s = 0; s < K::sums; s++) to.product[s] = to.plain[s] = 0;
#pragma unroll
    for (int g = 0; g < 16; g++) {
        const int s = g * 4 / K::apart;
        const uint32_t codes = w.codes(g), by = __ldg(x + g);
        to.plain[s] = dot_levels(0x01010101u, by, to.plain[s]);
        if constexpr (!K::looks) {
            to.product[s] = dot_codes(codes, by, to.product[s]);
        } else {
            int at = 0;
            if constexpr (K::picks) {
                const int j = (in_span * PANEL_K + 4 * g) / K::pick_weights;
                const uint32_t word = __ldg((const uint32_t *)tail + j / 8 * PANEL_ROWS + r);
                at = (int)(word >> K::pick_bits * (j % 8) & ((1u << K::pick_bits) - 1)) << K::bits;
            }
            uint32_t levels = 0;
#pragma unroll
            for (int i = 0; i < 4; i++)
                levels |= (uint32_t)(uint8_t)level[at + (int)(codes >> 8 * i & 255)] << 8 * i;
            to.product[s] = dot_levels(levels, by, to.product[s]);
        }
    }
    if constexpr (!K::looks)
#pragma unroll
        for (int s = 0; s < K::sums; s++) to.product[s] += K::zero * to.plain[s];
}

/* The operands of the chain over a tile: pair i is y = fma(x, y of the pair, y). */
template <class K>
__device__ __forceinline__ void qtile_pairs(const qsums<K> &s, const uint8_t *tail, int words, int in_span, int r,
                                            const float *x_scale, float factor, float2 *to, int apart)
{
    const uint8_t *rest = tail + words * PANEL_LINE;
    constexpr int blocks = K::span / K::block;
    if constexpr (K::two) {
        const float d = half_of(rest + 2 * r) * factor;
        const float dmin = K::base ? half_of(rest + 2 * PANEL_ROWS + 2 * r) : 0;
        const uint8_t *subs = rest + (K::base ? 4 : 2) * PANEL_ROWS;
        int32_t products = 0, minima = 0;
#pragma unroll
        for (int i = 0; i < K::sums; i++) {
            const int b = (in_span * PANEL_K + i * K::apart) / K::block, at = panel_pair_at(b, r);
            const uint8_t v = subs[at];
            products += (K::scale == PANEL_SUB4 ? v & 15 : (int8_t)v) * s.product[i];
            if constexpr (K::base)
                minima += (K::scale == PANEL_SUB4 ? v >> 4 : subs[blocks * PANEL_ROWS + at]) * s.plain[i];
        }
        if constexpr (K::base) to[0] = make_float2(fmaf(-dmin, (float)minima, d * (float)products), x_scale[0]);
        else to[0] = make_float2((float)products, d * x_scale[0]);
    } else {
#pragma unroll
        for (int i = 0; i < K::sums; i++) {
            const int b = (in_span * PANEL_K + i * K::apart) / K::block;
            const float xs = x_scale[i * K::apart / K::act];
            const float scale = qscale<K>(rest, tail, b, r) * factor;
            to[i * (K::base ? 2 : 1) * apart] = make_float2((float)s.product[i], scale * xs);
            if constexpr (K::base) {
                const float base = half_of(rest + blocks * PANEL_ROWS * K::scale_bytes + (b * PANEL_ROWS + r) * 2);
                to[(i * 2 + 1) * apart] = make_float2(base, xs * (float)s.plain[i]);
            }
        }
    }
}

/* Outputs 16 * blockIdx.y … of ROWS rows from blockIdx.x * ROWS on: a grid has 65 535 blocks at most along y. */
template <class K, int ROWS> __device__ void qmatmul(const qmat_args &a)
{
    __shared__ float2 pair[QMAT_PAIRS];
    __shared__ int8_t level[256];
    /* Tiles whose pairs fit. */
    constexpr int most = QMAT_PAIRS / (K::pairs * ROWS * PANEL_ROWS);
    const int half = (int)threadIdx.x / 16, r = (int)threadIdx.x % 16;
    const int64_t row0 = (int64_t)blockIdx.x * ROWS, n0 = (int64_t)blockIdx.y * PANEL_ROWS;
    const int64_t left = *a.of.live - row0;
    if (left <= 0) return;
    const int rows = (int)(left < ROWS ? left : ROWS);
    const int64_t head = n0 / a.of.head_rows;
    const int32_t expert = a.of.table ? a.of.table[row0 * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
    if (expert < 0) return;
    const uint8_t *panel = a.w + (uint64_t)((int64_t)expert * (a.of.n / PANEL_ROWS) + blockIdx.y) * a.w_stride;
    const int64_t k0 = head * a.of.cols;
    const int tiles = (int)((a.of.cols + PANEL_K - 1) / PANEL_K);
    const int64_t padded = act_padded(a.of.x_cols);
    if constexpr (K::looks) {
        for (int i = (int)threadIdx.x; i < (K::picks ? 1 << (K::bits + K::pick_bits) : 16); i += QMAT_THREADS)
            level[i] = panel_format_of((dtype)a.type)->level[i];
        __syncthreads();
    }
    float y = 0; /* of thread (row, output) */
    for (int first = 0; first < tiles; first += most) {
        const int last = first + most < tiles ? first + most : tiles;
        for (int t = first + half; t < last; t += 2 * QMAT_WARPS) {
            const int span = t / K::tiles, in_span = t % K::tiles;
            const int here = tiles - span * K::tiles < K::tiles ? tiles - span * K::tiles : K::tiles; /* tiles of it */
            const uint8_t *at = panel + (uint64_t)span * (K::tiles * K::lines + K::tail) * PANEL_LINE;
            const uint8_t *tail = at + here * K::lines * PANEL_LINE;
            const int words =
                K::picks ? (here * PANEL_K + 8 * K::pick_weights - 1) / (8 * K::pick_weights) : 0; /* lines of picks */
            qtile_words<K> w;
            w.load(at + in_span * K::lines * PANEL_LINE, r);
            for (int m = 0; m < rows; m++) {
                const uint8_t *x = a.x + (uint64_t)(row0 + m) * a.x_stride;
                const float *scale = (const float *)(x + padded) + (k0 + t * PANEL_K) / K::act;
                qsums<K> s;
                qtile_sums<K>(w, (const uint32_t *)(x + k0 + t * PANEL_K), level, tail, in_span, r, s);
                qtile_pairs<K>(s, tail, words, in_span, r, scale, a.factor,
                               pair + ((t - first) * K::pairs * ROWS + m) * PANEL_ROWS + r, ROWS * PANEL_ROWS);
            }
        }
        __syncthreads();
        if (threadIdx.x < ROWS * PANEL_ROWS)
            for (int i = 0; i < (last - first) * K::pairs; i++) {
                const float2 p = pair[i * ROWS * PANEL_ROWS + threadIdx.x];
                y = fmaf(p.x, p.y, y);
            }
        __syncthreads();
    }
    const int64_t m = row0 + threadIdx.x / PANEL_ROWS, n = n0 + r;
    if (threadIdx.x >= rows * PANEL_ROWS || n >= a.of.n) return;
    a.of.y[m * a.of.n + n] = a.of.bias ? y + a.of.bias[(int64_t)expert * a.of.n + n] : y;
}

#define QMAT_KERNELS(name, ...)                                                                                        \
    extern "C" __global__ void __launch_bounds__(QMAT_THREADS) cuda_qmat_##name##_1(const qmat_args a)                 \
    {                                                                                                                  \
        qmatmul<qkind<__VA_ARGS__>, 1>(a);                                                                             \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(QMAT_THREADS) cuda_qmat_##name##_8(const qmat_args a)                 \
    {                                                                                                                  \
        qmatmul<qkind<__VA_ARGS__>, 8>(a);                                                                             \
    }
PANEL_KIND_LIST(QMAT_KERNELS)
