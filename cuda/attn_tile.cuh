/* attn_tile.cuh - one tile of 64 keys and values that are codes, for eight queries, by a warp: scores, softmax of the
 * tile, sums of values, in the bits of ops/def_attn.c.
 *
 * Lane 4 g + t has the keys 4 g … 4 g + 3 and 32 + 4 g … 32 + 4 g + 3 for the queries 2 t and 2 t + 1, sixteen scores.
 * So keys lie in memory as a tensor instruction wants them, whose rows are keys and whose columns are queries: a word
 * of a tile is four bytes of one key, and 16 bytes are words of four products. Codes of 16 bits are two planes of bytes
 * each, of which four products are added. Values likewise: rows are elements, and sums go over keys. Integers are exact
 * in any order; each chain of floats is in one lane. */
#pragma once
#include "cuda/cuda_args.h"
#include "cuda/kept.cuh"
#include "cuda/warp_max.cuh"

extern "C" {
#include "src/ops/def_attn.c"
}

typedef struct tile_scores {
    float of[4][4]; /* [i][c]: key 4 g + i, from c = 2 on 32 more; query 2 t + c % 2 */
} tile_scores;
__device__ __forceinline__ int score_key(int lane, int i, int c) { return c / 2 * 32 + lane / 4 * 4 + i; }

typedef struct mma_sums {
    int32_t n[4];
} mma_sums;

template <bool A_SIGNED, bool B_SIGNED>
__device__ __forceinline__ void mma_bytes(mma_sums &c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                          uint32_t b1)
{
#define MMA(a, b)                                                                                                      \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." a "." b ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"  \
        : "+r"(c.n[0]), "+r"(c.n[1]), "+r"(c.n[2]), "+r"(c.n[3])                                                       \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
    if constexpr (A_SIGNED && B_SIGNED) MMA("s8", "s8");
    else if constexpr (A_SIGNED) MMA("s8", "u8");
    else if constexpr (B_SIGNED) MMA("u8", "s8");
    else MMA("u8", "u8");
#undef MMA
}

__device__ __forceinline__ uint32_t low_bytes(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x6420); }
__device__ __forceinline__ uint32_t high_bytes(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x7531); }
/* The sum of products whose digits of 8 bits were multiplied apart. */
__device__ __forceinline__ int32_t sum_planes(int32_t low, int32_t mixed, int32_t high)
{
    return (int32_t)((uint32_t)low + ((uint32_t)mixed << 8) + ((uint32_t)high << 16));
}
__device__ __forceinline__ uint32_t word_of(uint4 w, int i) { return i == 0 ? w.x : i == 1 ? w.y : i == 2 ? w.z : w.w; }
__device__ __forceinline__ uint32_t shared_word(const uint8_t *at) { return *(const uint32_t *)at; }

/* Four f16 from `at` on. */
__device__ __forceinline__ void halves_at(const uint16_t *at, float to[4])
{
    const uint2 w = *(const uint2 *)at;
    to[0] = half_float((uint16_t)w.x);
    to[1] = half_float((uint16_t)(w.x >> 16));
    to[2] = half_float((uint16_t)w.y);
    to[3] = half_float((uint16_t)(w.y >> 16));
}
/* Of the lane's eight keys: [c / 2][i]. */
__device__ __forceinline__ void key_halves(const uint16_t *at, int lane, float to[2][4])
{
    halves_at(at + lane / 4 * 4, to[0]);
    halves_at(at + 32 + lane / 4 * 4, to[1]);
}

/* ---- scores: keys times queries, of codes without the scale of the query */

/* S, here and below: attn_memory or attn_ring of attn_ring.cuh, where tiles are found.
 *
 * Words of row `r` of a piece of keys, which has `rows`: of the lane's first four keys, of the others. */
template <class S> __device__ __forceinline__ void key_words(const uint8_t *piece, int r, int rows, int lane, uint4 to[2])
{
    const uint4 *at = (const uint4 *)(piece + r * S::key_pitch) + lane / 4;
    to[0] = to[1] = make_uint4(0, 0, 0, 0);
    if (S::ring || r < rows) {
        to[0] = *at;
        to[1] = at[8];
    }
}

/* Adds what a block of keys is, n sums of products of codes; of: the sums of its codes of the lane's two queries. */
__device__ __forceinline__ void scores_of_block(const uint16_t *scales, const uint16_t *bases, const mma_sums n[4],
                                                const float of[2], int lane, tile_scores *to)
{
    float scale[2][4], base[2][4];
    key_halves(scales, lane, scale);
    key_halves(bases, lane, base);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            to->of[i][c] = fmaf(base[c / 2][i], of[c % 2], to->of[i][c]);
            to->of[i][c] = fmaf((float)n[i].n[c], scale[c / 2][i], to->of[i][c]);
        }
}

/* Codes of 8 or 4 bits; q: those of this lane's query, g. A piece of keys is half a block, or two. */
template <int BITS, class S>
__device__ __forceinline__ void scores_bytes(S &source, const kv_codes *f, uint8_t *keys, const uint8_t *q, const float *sums,
                                             int lane, tile_scores *to)
{
    constexpr int steps = BITS == 8 ? 1 : 2, each = 8 / steps; /* of a piece; rows of words of a step */
    const int t = lane % 4, rows = (int)f->bytes / (PAGE_TOKENS * 4), blocks = (int)f->blocks;
    mma_sums n[4] = {};
#pragma unroll 1
    for (int s = 0; s * each < rows; s += steps) {
        source.take();
        const uint8_t *piece = source.key_rows(keys, s / steps);
#pragma unroll
        for (int k = 0; k < steps; k++) {
            if (k && (s + k) * each >= rows) break;
            uint4 near[2], far[2];
            key_words<S>(piece, k * each + t, rows - s * each, lane, near);
            if constexpr (BITS == 8) key_words<S>(piece, 4 + t, rows - s * each, lane, far);
            const uint8_t *at = q + (s + k) * 32 + t * (BITS == 8 ? 4 : 8);
            const uint32_t b0 = shared_word(at), b1 = shared_word(at + (BITS == 8 ? 16 : 4));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t w0 = word_of(near[0], i), w1 = word_of(near[1], i);
                if constexpr (BITS == 8)
                    mma_bytes<false, true>(n[i], w0, w1, word_of(far[0], i), word_of(far[1], i), b0, b1);
                else
                    mma_bytes<false, true>(n[i], w0 & 0x0f0f0f0fu, w1 & 0x0f0f0f0fu, w0 >> 4 & 0x0f0f0f0fu,
                                           w1 >> 4 & 0x0f0f0f0fu, b0, b1);
            }
            if (BITS == 8 && s % 2 == 0 && (s + 1) * each < rows) continue;
            const int b = BITS == 8 ? s / 2 : s + k;
            const float of[2] = {sums[2 * t * blocks + b], sums[(2 * t + 1) * blocks + b]};
            scores_of_block(source.key_scales(f, keys, b), source.key_bases(f, keys, b), n, of, lane, to);
#pragma unroll
            for (int i = 0; i < 4; i++) n[i] = {};
        }
        source.give();
    }
}

/* Codes of 16 bits: two planes of bytes of keys, and of queries, `plane` bytes apart. First keys 0 … 31 of the tile, then
 * the others: all at once would take more registers than there are. Sums c = 2, 3 are of keys 4 g + 2 and 3 here. */
template <class S>
__device__ __forceinline__ void scores_words(S &source, const kv_codes *f, uint8_t *keys, const uint8_t *q, int plane,
                                             int lane, tile_scores *to)
{
    const int rows = (int)f->bytes / (PAGE_TOKENS * 4);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int t = kept(lane % 4);
        mma_sums low[2] = {}, mixed[2] = {}, high[2] = {};
        float scale[4];
#pragma unroll 1
        for (int s = 0; s * 16 < rows; s++) {
            source.take();
            const uint8_t *piece = source.key_words(keys, s, half) + lane / 4 * 16, *at = q + s * 32 + t * 4;
            const uint32_t l0 = shared_word(at), l1 = shared_word(at + 16), h0 = shared_word(at + plane),
                           h1 = shared_word(at + plane + 16);
            uint4 w[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int r = k / 2 * 8 + 2 * t + k % 2;
                w[k] = make_uint4(0, 0, 0, 0);
                if (S::ring || s * 16 + r < rows) w[k] = *(const uint4 *)(piece + r * S::key_pitch);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t l[4], h[4];
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const uint32_t even = word_of(w[k / 2 * 2], k % 2 * 2 + i), odd = word_of(w[k / 2 * 2 + 1], k % 2 * 2 + i);
                    l[k] = low_bytes(even, odd);
                    h[k] = high_bytes(even, odd);
                }
                mma_bytes<false, false>(low[i], l[0], l[1], l[2], l[3], l0, l1);
                mma_bytes<false, true>(mixed[i], l[0], l[1], l[2], l[3], h0, h1);
                mma_bytes<true, false>(mixed[i], h[0], h[1], h[2], h[3], l0, l1);
                mma_bytes<true, true>(high[i], h[0], h[1], h[2], h[3], h0, h1);
            }
            if (S::ring && (s + 1) * 16 >= rows) halves_at(source.word_scales(f, keys, half) + lane / 4 * 4, scale);
            source.give();
        }
        if (!S::ring) halves_at(source.word_scales(f, keys, half) + lane / 4 * 4, scale);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                to->of[i + c / 2 * 2][half * 2 + c % 2] =
                    (float)sum_planes(low[i].n[c], mixed[i].n[c], high[i].n[c]) * scale[i + c / 2 * 2];
    }
}

/* The greatest magnitude of n elements, by a warp; `odd`: one of them is not finite. */
typedef struct warp_range {
    float most;
    bool odd;
} warp_range;
__device__ __forceinline__ warp_range warp_range_of(const float *x, int n, int lane)
{
    float most = 0;
    bool odd = false;
    for (int i = lane; i < n; i += 32) {
        most = fm_max(fabsf(x[i]), most);
        odd = odd || !(fabsf(x[i]) < INFINITY);
    }
    return {warp_max(most), (bool)__any_sync(~0u, odd)};
}

/* ---- over the lanes that have keys of one query */
__device__ __forceinline__ float keys_max(float x)
{
#pragma unroll
    for (int apart = 4; apart < 32; apart *= 2) x = fm_max(__shfl_xor_sync(~0u, x, apart), x);
    return x;
}
__device__ __forceinline__ int keys_add(int x)
{
#pragma unroll
    for (int apart = 4; apart < 32; apart *= 2) x += __shfl_xor_sync(~0u, x, apart);
    return x;
}
/* Is it so in one of them? */
__device__ __forceinline__ bool keys_any(bool x, int lane)
{
    return (__ballot_sync(~0u, x) & 0x11111111u << lane % 4) != 0;
}

/* ---- values */

/* What a block of values makes of weights w of a query, keys [from, to) of the tile: bytes or words, to be multiplied by
 * the codes of values. */
typedef struct tile_shares {
    uint32_t word[2][2]; /* [plane][c / 2]: of four keys */
    float each;          /* without the factor of the tile */
    float base;          /* times the sum of bases and that factor: an offset */
    int bases;
} tile_shares;

template <int BITS>
__device__ __forceinline__ tile_shares shares_of(const kv_codes *f, const float scale[2][4], const float base[2][4],
                                                 const int w[2][4], int from, int to, int lane)
{
    tile_shares s = {};
    float most = 0, most_base = 0;
    bool odd = false;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = score_key(lane, i, 2 * h);
            if (key < from || key >= to) continue;
            most = fm_max(scale[h][i], most);
            odd = odd || !(fabsf(scale[h][i]) < INFINITY);
            if (BITS == 4) most_base = fm_max(fabsf(base[h][i]), most_base);
        }
    most = keys_max(most);
    if (BITS == 4) most_base = keys_max(most_base);
    const bool bad = keys_any(odd, lane);
    const float up = most > 0 && !bad ? (float)f->weight_top / most : 0,
                base_up = most_base > 0 && !bad ? BASE_TOP / most_base : 0;
    s.each = bad ? NAN : most / f->weight_unit;
    s.base = most_base * (0x1p-15f / BASE_TOP);
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = score_key(lane, i, 2 * h);
            const bool there = key >= from && key < to;
            const int by = bad || !there ? 0 : (int)rintf(scale[h][i] * up);
            if (BITS == 16) {
                const uint32_t share = (uint32_t)kv_weight_word(w[h][i], by);
                s.word[0][h] |= (share & 255) << 8 * i;
                s.word[1][h] |= share >> 8 << 8 * i;
            } else {
                s.word[0][h] |= (uint32_t)kv_weight_byte(w[h][i], by) << 8 * i;
                if (BITS == 4 && !bad && there) s.bases += w[h][i] * (int)rintf(base[h][i] * base_up);
            }
        }
    if (BITS == 4) s.bases = keys_add(s.bases);
    return s;
}

/* Sums over the keys of a tile of shares times codes, of 16 elements (of 4 bits: 32, 16 of each nibble) and eight
 * queries: element 2 g + c / 2 (nibble 1: 16 more), query 2 t + c % 2. at: the first element's word, of the row of the
 * first keys, rows `pitch` bytes apart; share: of the lane's query g. */
template <int BITS>
__device__ __forceinline__ void value_sums(const uint8_t *at, int pitch, const uint8_t *share, int plane, int lane,
                                           mma_sums n[2])
{
    const int g = lane / 4, t = lane % 4;
    const auto words = [&](int row) { return ((const uint2 *)(at + row * pitch))[g]; };
    n[0] = n[1] = {};
    if constexpr (BITS == 16) {
        mma_sums low = {}, mixed = {}, high = {};
#pragma unroll
        for (int s = 0; s < 2; s++) {
            uint2 w[4];
#pragma unroll
            for (int k = 0; k < 4; k++) w[k] = words(s * 16 + k / 2 * 8 + 2 * t + k % 2);
            const uint32_t l[4] = {low_bytes(w[0].x, w[1].x), low_bytes(w[0].y, w[1].y), low_bytes(w[2].x, w[3].x),
                                   low_bytes(w[2].y, w[3].y)},
                           h[4] = {high_bytes(w[0].x, w[1].x), high_bytes(w[0].y, w[1].y), high_bytes(w[2].x, w[3].x),
                                   high_bytes(w[2].y, w[3].y)};
            const uint8_t *by = share + s * 32 + t * 4;
            const uint32_t l0 = shared_word(by), l1 = shared_word(by + 16), h0 = shared_word(by + plane),
                           h1 = shared_word(by + plane + 16);
            mma_bytes<false, false>(low, l[0], l[1], l[2], l[3], l0, l1);
            mma_bytes<false, false>(mixed, l[0], l[1], l[2], l[3], h0, h1);
            mma_bytes<true, false>(mixed, h[0], h[1], h[2], h[3], l0, l1);
            mma_bytes<true, false>(high, h[0], h[1], h[2], h[3], h0, h1);
        }
#pragma unroll
        for (int c = 0; c < 4; c++) n[0].n[c] = sum_planes(low.n[c], mixed.n[c], high.n[c]);
    } else {
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const uint2 a = words(s * 8 + t), b = words(s * 8 + 4 + t);
            const uint8_t *by = share + s * 32 + t * 4;
            const uint32_t b0 = shared_word(by), b1 = shared_word(by + 16);
            if constexpr (BITS == 8) {
                mma_bytes<true, false>(n[0], a.x, a.y, b.x, b.y, b0, b1);
            } else {
                mma_bytes<false, false>(n[0], a.x & 0x0f0f0f0fu, a.y & 0x0f0f0f0fu, b.x & 0x0f0f0f0fu,
                                        b.y & 0x0f0f0f0fu, b0, b1);
                mma_bytes<false, false>(n[1], a.x >> 4 & 0x0f0f0f0fu, a.y >> 4 & 0x0f0f0f0fu, b.x >> 4 & 0x0f0f0f0fu,
                                        b.y >> 4 & 0x0f0f0f0fu, b0, b1);
            }
        }
    }
}
