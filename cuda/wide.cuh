/* wide.cuh - what surrounds a product of cuBLAS (--exact off): both operands as bfloat16 or float16, scales and bias
 * behind it.
 *
 * Packed weights become rows of bfloat16, a strip of outputs at a time, by a kernel for each kind. A warp has the 16
 * outputs of a panel and two tiles of 64 columns, lanes of one half a tile each. Lanes of an output exchange halves of
 * 16 columns, so that two neighbouring lanes write 32 bytes that lie side by side, which is what L2 takes at once.
 * Activations become the type of the weights: a row goes to float16 times a power of two that keeps its greatest element
 * below 2^14, so that it neither overflows nor loses its small elements.
 *
 * Bound of a strip: two bytes a weight into L2, and instructions (counted: tests/t_cuda_wide.c).
 *
 * Tried and dropped: a thread for a block of one output, any kind by branches: each lane wrote two bytes of another
 * row at a time, 32 bytes of L2 for each two, and some hundred instructions a weight. */
#pragma once
#include "cuda/qmany.cuh"
#include "cuda/warp_max.cuh"

/* weight = level * scale + base, for each K::apart columns of a tile of an output. */
template <class K> struct wide_scales {
    float scale[K::sums], base[K::sums];

    __device__ __forceinline__ wide_scales(const many_tile<K> &t, int r, float factor)
    {
        constexpr int blocks = K::span / K::block;
        const float d = K::two ? half_of(t.rest + 2 * r) * factor : 0;
        const uint8_t *subs = t.rest + (K::base ? 4 : 2) * PANEL_ROWS;
#pragma unroll
        for (int i = 0; i < K::sums; i++) {
            const int b = (t.in_span * PANEL_K + i * K::apart) / K::block;
            base[i] = 0;
            if constexpr (K::two) {
                const int at = panel_pair_at(b, r);
                const uint8_t v = subs[at];
                scale[i] = d * (float)(K::scale == PANEL_SUB4 ? v & 15 : (int8_t)v);
                if constexpr (K::base)
                    base[i] = -(half_of(t.rest + 2 * PANEL_ROWS + 2 * r) *
                                (float)(K::scale == PANEL_SUB4 ? v >> 4 : subs[blocks * PANEL_ROWS + at]));
            } else {
                scale[i] = qscale<K>(t.rest, t.tail, b, r) * factor;
                if constexpr (K::base) base[i] = half_of(t.rest + blocks * PANEL_ROWS * K::scale_bytes + (b * PANEL_ROWS + r) * 2);
                if constexpr (K::base == PANEL_ZERO) base[i] = base[i] * scale[i];
            }
        }
    }
};

/* The level of byte I of four codes, as a float: a byte below the exponent of 2^23 is that number and the byte. */
template <class K, int I> __device__ __forceinline__ float wide_level(uint32_t four)
{
    if constexpr (K::code == PANEL_E4M3) return (float)e4m3_level((uint8_t)(four >> 8 * I));
    constexpr int more = K::looks ? 128 : -K::zero; /* of codes than of levels */
    return __uint_as_float(__byte_perm(four, 0x4b000000, 0x7540 | I)) - (float)((1 << 23) + more);
}

__device__ __forceinline__ uint32_t wide_pair(float low, float high)
{
    uint32_t to;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
    return to;
}

/* Columns 16 M … 16 M + 15 of a tile of an output. picks: of the 32 columns that these are half of. */
template <class K, int M>
__device__ __forceinline__ void wide_sixteen(const qtile_words<K> &w, const wide_scales<K> &by, uint32_t picks,
                                             const int8_t *level, uint32_t to[8])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int g = 4 * M + i, sum = 4 * g / K::apart;
        uint32_t four = w.codes(g);
        if constexpr (K::looks) {
            const int pick = (int)(picks >> K::pick_bits * ((g - M / 2 * 8) * 4 / K::pick_weights) & ((1u << K::pick_bits) - 1));
            four = many_bytes<K>(four, level, pick << K::bits) ^ 0x80808080u;
        }
        float v[4] = {wide_level<K, 0>(four), wide_level<K, 1>(four), wide_level<K, 2>(four), wide_level<K, 3>(four)};
#pragma unroll
        for (int c = 0; c < 4; c++) v[c] = K::base ? v[c] * by.scale[sum] + by.base[sum] : v[c] * by.scale[sum];
        to[2 * i] = wide_pair(v[0], v[1]);
        to[2 * i + 1] = wide_pair(v[2], v[3]);
    }
}

/* Eight columns of a row from k on, as far as there are. */
__device__ __forceinline__ void wide_put(const wide_weights &a, uint16_t *row, int64_t k, const uint32_t *v)
{
    if (a.cols % 8 == 0 && k < a.cols) *(uint4 *)(row + k) = make_uint4(v[0], v[1], v[2], v[3]);
    else
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (k + i < a.cols) row[k + i] = (uint16_t)(v[i / 2] >> i % 2 * 16);
}

/* The same of both tiles of the warp: lanes of the first write its columns 0 … 7 and those of the second, others the rest. */
template <class K, int M>
__device__ __forceinline__ void wide_piece(const wide_weights &a, const qtile_words<K> &w, const wide_scales<K> &by, uint32_t picks,
                                           const int8_t *level, int half, uint16_t *row, int64_t k)
{
    uint32_t mine[8], first[4], second[4];
    wide_sixteen<K, M>(w, by, picks, level, mine);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t got = __shfl_xor_sync(~0u, half ? mine[i] : mine[4 + i], 16);
        first[i] = half ? got : mine[i];
        second[i] = half ? mine[4 + i] : got;
    }
    if (!row) return;
    wide_put(a, row, k + 16 * M + 8 * half, first);
    wide_put(a, row, k + PANEL_K + 16 * M + 8 * half, second);
}

template <class K> __device__ __forceinline__ void wide_tiles(const wide_weights &a)
{
    __shared__ int8_t level[256];
    put_levels<K, WIDE_THREADS>((dtype)a.type, level);
    __syncthreads();
    const int lane = (int)threadIdx.x % 32, r = lane % 16, half = lane / 16, tiles = (int)((a.cols + PANEL_K - 1) / PANEL_K),
              pairs = (tiles + 1) / 2;
    const int64_t at = (int64_t)blockIdx.x * (WIDE_THREADS / 32) + threadIdx.x / 32, panel = at / pairs;
    const int first = (int)(at % pairs) * 2;
    if (panel * PANEL_ROWS >= a.rows) return;
    const int own = first + half < tiles ? first + half : first;
    const many_tile<K> t(a.w + (uint64_t)(a.row0 / PANEL_ROWS + panel) * a.stride, own, tiles);
    const wide_scales<K> by(t, r, a.factor);
    qtile_words<K> w;
    w.load(t.codes, r);
    uint32_t picks[2] = {};
    if constexpr (K::picks)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int j = (t.in_span * PANEL_K + i * 32) / K::pick_weights;
            picks[i] = ((const uint32_t *)t.tail)[j / 8 * PANEL_ROWS + r] >> K::pick_bits * (j % 8);
        }
    uint16_t *row = panel * PANEL_ROWS + r < a.rows ? a.to + (panel * PANEL_ROWS + r) * a.cols : NULL;
    const int64_t k = (int64_t)first * PANEL_K;
    wide_piece<K, 0>(a, w, by, picks[0], level, half, row, k);
    wide_piece<K, 1>(a, w, by, picks[0], level, half, row, k);
    wide_piece<K, 2>(a, w, by, picks[1], level, half, row, k);
    wide_piece<K, 3>(a, w, by, picks[1], level, half, row, k);
}

#define WIDE_KERNELS(name, ...)                                                                                        \
    extern "C" __global__ void __launch_bounds__(WIDE_THREADS) cuda_wide_##name(const __grid_constant__ wide_weights a) \
    {                                                                                                                  \
        wide_tiles<qkind<__VA_ARGS__>>(a);                                                                             \
    }
PANEL_KIND_LIST(WIDE_KERNELS)

/* A block of threads has a row: of codes, or of floats. */
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) cuda_wide_rows(const wide_rows a)
{
    __shared__ float most[WIDE_THREADS / 32];
    const int64_t row = blockIdx.x;
    uint16_t *to = a.to + row * a.cols;
    if (a.block) {
        const uint8_t *x = (const uint8_t *)a.x + (uint64_t)row * act_row_bytes(a.cols, a.block);
        const float *scale = (const float *)(x + act_padded(a.cols));
        for (int64_t k = threadIdx.x; k < a.cols; k += WIDE_THREADS)
            to[k] = f32_to_bf16((float)((const int8_t *)x)[k] * scale[k / a.block]);
        return;
    }
    const float *x = (const float *)a.x + row * a.cols;
    float greatest = 0;
    for (int64_t k = threadIdx.x; k < a.cols && a.half; k += WIDE_THREADS) greatest = fmaxf(greatest, fabsf(x[k]));
    greatest = warp_max(greatest);
    if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = greatest;
    __syncthreads();
    for (int i = 0; i < WIDE_THREADS / 32; i++) greatest = fmaxf(greatest, most[i]);
    int power = 0;
    if (greatest > 0 && greatest < INFINITY) frexpf(greatest, &power);
    const float down = ldexpf(1, a.half ? 14 - power : 0);
    if (threadIdx.x == 0) a.scale[row] = ldexpf(1, a.half ? power - 14 : 0);
    for (int64_t k = threadIdx.x; k < a.cols; k += WIDE_THREADS)
        to[k] = a.half ? __half_as_ushort(__float2half_rn(x[k] * down)) : f32_to_bf16(x[k]);
}

/* y = y * scale + bias; either may be NULL. */
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) cuda_wide_end(const wide_end a)
{
    const int64_t i = (int64_t)blockIdx.x * WIDE_THREADS + threadIdx.x;
    if (i >= a.rows * a.n) return;
    a.y[i] = fmaf(a.y[i], a.scale ? a.scale[i / a.n] : 1, a.bias ? a.bias[i % a.n] : 0);
}
