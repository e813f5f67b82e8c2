/* qmany.cuh - what kernels of packed weights times many rows have in common (qprefill.cuh, qwgmma.cuh): which rows and
 * outputs a block of threads has, and codes of a panel, any kind alike, as bytes in shared memory.
 *
 * There 64 bytes of an output or row are four pieces of 16, stored at places that differ between neighbours: what eight
 * lanes read at once lies in different banks. It is also what a tensor instruction of a warpgroup calls a swizzle of 64
 * bytes. */
#pragma once
#include "cuda/qpanel.cuh"

#include "src/tensor/act_q8.h"

/* The place of byte k of an output or row. */
__device__ __forceinline__ int many_at(int line, int k) { return line * PANEL_K + (((k >> 4) ^ (line >> 1)) & 3) * 16 + (k & 15); }

/* Bytes that come while others are multiplied. */
__device__ __forceinline__ void copy_word(void *to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* A block's product: rows [row0, row0 + rows) by outputs from n0 on. */
typedef struct many_block {
    const qmat_args *a;
    const uint8_t *panels, *x; /* of the first output; of the first row, from the first column on */
    const float *x_scale;      /* likewise; scaled sums and sums lie behind */
    int64_t blocks, block0;    /* of a whole row of activations; the first here */
    int n0, rows, tiles;
} many_block;

/* Where tile t lies in a panel, and its tail. */
template <class K> struct many_tile {
    const uint8_t *codes, *tail, *rest;
    int in_span;

    __device__ __forceinline__ many_tile(const uint8_t *panel, int t, int tiles)
    {
        const int span = t / K::tiles;
        const int here = tiles - span * K::tiles < K::tiles ? tiles - span * K::tiles : K::tiles;
        const int words = K::picks ? (here * PANEL_K + 8 * K::pick_weights - 1) / (8 * K::pick_weights) : 0;
        const uint8_t *at = panel + (uint64_t)span * (K::tiles * K::lines + K::tail) * PANEL_LINE;
        in_span = t % K::tiles;
        codes = at + in_span * K::lines * PANEL_LINE;
        tail = at + here * K::lines * PANEL_LINE;
        rest = tail + words * PANEL_LINE;
    }
};

/* Codes of four weights as bytes to be multiplied: levels, or what a zero makes of codes. */
template <class K> __device__ __forceinline__ uint32_t many_bytes(uint32_t codes, const int8_t *level, int at)
{
    if constexpr (K::looks) {
        uint32_t levels = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) levels |= (uint32_t)(uint8_t)level[at + (int)(codes >> 8 * i & 255)] << 8 * i;
        return levels;
    }
    if constexpr (K::zero == -128) return codes ^ 0x80808080u;
    if constexpr (K::zero != 0) return ((codes | 0x80808080u) - (uint32_t)-K::zero * 0x01010101u) ^ 0x80808080u;
    return codes;
}

/* Scales of an output for one tile, thread by thread. */
template <class K, class STAGE> __device__ __forceinline__ void put_scales(const many_tile<K> &t, int r, int out, float factor, STAGE *to)
{
    constexpr int blocks = K::span / K::block;
    if constexpr (K::two) {
        to->scale[0][out] = half_of(t.rest + 2 * r) * factor;
        if constexpr (K::base) to->base[0][out] = half_of(t.rest + 2 * PANEL_ROWS + 2 * r);
        const uint8_t *subs = t.rest + (K::base ? 4 : 2) * PANEL_ROWS;
#pragma unroll
        for (int i = 0; i < K::sums; i++) {
            const int at = panel_pair_at((t.in_span * PANEL_K + i * K::apart) / K::block, r);
            const uint8_t v = subs[at];
            to->sub[i][out] = K::scale == PANEL_SUB4 ? (int8_t)(v & 15) : (int8_t)v;
            if constexpr (K::base) to->minimum[i][out] = K::scale == PANEL_SUB4 ? v >> 4 : subs[blocks * PANEL_ROWS + at];
        }
    } else {
#pragma unroll
        for (int i = 0; i < K::sums; i++) {
            const int b = (t.in_span * PANEL_K + i * K::apart) / K::block;
            to->scale[i][out] = qscale<K>(t.rest, t.tail, b, r) * factor;
            if constexpr (K::base) {
                const float base = half_of(t.rest + blocks * PANEL_ROWS * K::scale_bytes + (b * PANEL_ROWS + r) * 2);
                to->base[i][out] = K::base == PANEL_ZERO ? base * to->scale[i][out] : base;
            }
        }
    }
}

/* Unpacks what this thread has loaded of tile t: half of the columns of an output. */
template <class K, int HALF, class STAGE>
__device__ __forceinline__ void put_codes(const qtile_words<K> &w, const many_tile<K> &t, const int8_t *level, int r, int out, STAGE *to)
{
    uint32_t picks = 0; /* of these 32 columns, the first in the lowest bits */
    if constexpr (K::picks) {
        const int j = (t.in_span * PANEL_K + HALF * 32) / K::pick_weights;
        picks = ((const uint32_t *)t.tail)[j / 8 * PANEL_ROWS + r] >> K::pick_bits * (j % 8);
    }
#pragma unroll
    for (int c = HALF * 2; c < HALF * 2 + 2; c++) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int g = c * 4 + i;
            const int at = (int)(picks >> K::pick_bits * ((g - HALF * 8) * 4 / K::pick_weights) & ((1u << K::pick_bits) - 1)) << K::bits;
            word[i] = many_bytes<K>(w.codes(g), level, at);
        }
        *(uint4 *)(to->w + many_at(out, c * 16)) = make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* Levels of a type whose codes are looked up. */
template <class K, int THREADS> __device__ __forceinline__ void put_levels(dtype type, int8_t *level)
{
    if constexpr (K::looks)
        for (int i = (int)threadIdx.x; i < (K::picks ? 1 << (K::bits + K::pick_bits) : 16); i += THREADS)
            level[i] = panel_format_of(type)->level[i];
}

/* Calls f(block, its first row, their expert) for the rows of a block of threads; with experts for run after run of rows of
 * one. */
template <class K, int ROWS, int OUTPUTS, class F> __device__ __forceinline__ void many_runs(const qmat_args &a, F f)
{
    const int n0 = (int)blockIdx.y * OUTPUTS;
    const int64_t k0 = n0 / a.of.head_rows * a.of.cols, padded = act_padded(a.of.x_cols);
    const int first = (int)blockIdx.x * ROWS, end = min(*a.of.live, first + ROWS);
    for (int row = first, next; row < end; row = next) {
        const int32_t expert = a.of.table ? a.of.table[(int64_t)row * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
        for (next = a.of.table ? row + 1 : end;
             next < end && a.of.table[(int64_t)next * DISPATCH_COLS + DISPATCH_EXPERT] == expert;)
            next++;
        if (expert < 0) continue;
        const uint8_t *x = a.x + (uint64_t)row * a.x_stride;
        const many_block b = {.a = &a,
                              .panels = a.w + (uint64_t)((int64_t)expert * (a.of.n / PANEL_ROWS) + n0 / PANEL_ROWS) * a.w_stride,
                              .x = x + k0,
                              .x_scale = (const float *)(x + padded) + k0 / K::act,
                              .blocks = padded / K::act,
                              .block0 = k0 / K::act,
                              .n0 = n0,
                              .rows = next - row,
                              .tiles = (int)((a.of.cols + PANEL_K - 1) / PANEL_K)};
        f(b, row, expert);
    }
}

/* Element o of the bias of an expert added to y, if there is one. */
__device__ __forceinline__ float many_biased(const qmat_args &a, int expert, int64_t o, float y)
{
    return a.of.bias ? y + a.of.bias[expert * a.of.n + o] : y;
}
