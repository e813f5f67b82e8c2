/* attn_float.cuh - one tile of 64 keys and values that are floats, by a warp for all units of its block, in the bits of
 * ops/def_attn.c: products of queries and keys, softmax of the tile, sums of values.
 *
 * A lane has a small matrix of sums: some units times some keys, then some units times some elements of values. So what
 * it loads for one step of all its chains is few and wide, and nearly every instruction is a fused multiply-add. Scores
 * become weights in shared memory, where a lane has one unit and every second or fourth key: the sixteen lanes of the
 * sum of weights are then in few registers.
 *
 * Bound: fused multiply-adds for many rows; bytes for few. Tried and dropped: a test of range for each key and unit,
 * where a weight below 0 says that a key is not seen, and only keys of pieces that some unit does not see are tested. */
#pragma once
#include "cuda/attn_ring.cuh"

/* What a lane has: units and keys, units and elements; a block has `ALL` units. Lanes that have the same units have all
 * keys, and `width` elements at a time. */
template <int ALL, int UNITS, int KEYS, int ELEMENTS> struct float_shape {
    static constexpr int all = ALL, units = UNITS, keys = KEYS, elements = ELEMENTS, lanes = PAGE_TOKENS / KEYS,
                         width = lanes * ELEMENTS;
    static_assert(width <= ATTN_WIDTH, "the room of a block");
};

/* Two f16 that lie side by side. */
__device__ __forceinline__ void half_pair(uint32_t w, float to[2])
{
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(to[0]), "=f"(to[1])
        : "r"(w));
}

/* N elements of a cache from `at` on, side by side and aligned. */
template <int T, int N> __device__ __forceinline__ void cache_floats(const uint8_t *at, float to[N])
{
    constexpr int words = T == DTYPE_F16 ? N / 2 : N;
    uint32_t w[words];
    if constexpr (words == 1) w[0] = *(const uint32_t *)at;
    if constexpr (words == 2) {
        const uint2 x = *(const uint2 *)at;
        w[0] = x.x, w[1] = x.y;
    }
#pragma unroll
    for (int i = 0; words > 2 && i < words / 4; i++) {
        const uint4 x = ((const uint4 *)at)[i];
        w[4 * i] = x.x, w[4 * i + 1] = x.y, w[4 * i + 2] = x.z, w[4 * i + 3] = x.w;
    }
#pragma unroll
    for (int i = 0; i < words; i++) {
        if constexpr (T == DTYPE_F16) half_pair(w[i], to + 2 * i);
        else to[i] = __uint_as_float(w[i]);
    }
}

template <int N> __device__ __forceinline__ void shared_floats(const float *at, float to[N])
{
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        const float4 x = ((const float4 *)at)[i];
        to[4 * i] = x.x, to[4 * i + 1] = x.y, to[4 * i + 2] = x.z, to[4 * i + 3] = x.w;
    }
}

/* Products of a tile of keys and the queries q[dim][all], to p[key][all]. M, here and below: attn_memory or attn_ring. */
template <int T, class S, class M>
__device__ __forceinline__ void float_products(M &source, const uint8_t *keys, int dim, const float *q, int lane, float *p)
{
    typedef attn_pieces<T> P;
    const int each = M::ring ? ATTN_PIECE / P::row : dim; /* rows of a piece */
    const int key = lane % S::lanes * S::keys, u = lane / S::lanes * S::units;
    float sum[S::units][S::keys] = {};
    q += u;
#pragma unroll 1
    for (int d0 = 0; d0 < dim; d0 += each) {
        source.take();
        const uint8_t *from = source.key_rows(keys, d0 / each) + key * P::size;
        const int rows = dim - d0 < each ? dim - d0 : each;
#pragma unroll 4
        for (int d = 0; d < rows; d++, from += P::row, q += S::all) {
            float k[S::keys], x[S::units];
            cache_floats<T, S::keys>(from, k);
            shared_floats<S::units>(q, x);
#pragma unroll
            for (int i = 0; i < S::units; i++)
#pragma unroll
                for (int j = 0; j < S::keys; j++) sum[i][j] = fmaf(x[i], k[j], sum[i][j]);
        }
        source.give();
    }
#pragma unroll
    for (int j = 0; j < S::keys; j++)
#pragma unroll
        for (int i = 0; i < S::units; i += 4)
            *(float4 *)(p + (key + j) * S::all + u + i) = make_float4(sum[i][j], sum[i + 1][j], sum[i + 2][j], sum[i + 3][j]);
}

/* e^x of -86 <= x <= 0, NaN of NaN, in the bits of fm_exp: no limit is met, and 2^n is normal. */
__device__ __forceinline__ float exp_below(float x)
{
    const float t = fmaf(x, FM_LOG2E, FM_ROUND), n = t - FM_ROUND, r = fmaf(n, -FM_LN2_LO, fmaf(n, -FM_LN2_HI, x));
    float p = fmaf(fmaf(fmaf(fmaf(FM_EXP_6, r, FM_EXP_5), r, FM_EXP_4), r, FM_EXP_3), r, FM_EXP_2);
    p = fmaf(r * r, p, r) + 1.0f;
    return p * __uint_as_float((float_bits(t) << 23) + (127u << 23)); /* FM_ROUND ends in zeros */
}

enum { UNSEEN_WEIGHT = -1 }; /* of keys that a unit does not see */

/* Scores of the lane's unit, times `by`, become weights; it sees the keys [from, to). Returns their maximum; sum: of all
 * weights, in the lanes of the definition. */
template <int ALL> __device__ __forceinline__ float float_weights(float *p, float by, int from, int to, int lane, float *sum)
{
    constexpr int apart = 32 / ALL, n = 16 / apart; /* lanes of a unit; sums of weights of one */
    const int first = lane / ALL;
    float x[n][4], most = -INFINITY, lanes[n];
    p += lane % ALL + first * ALL;
#pragma unroll
    for (int m = 0; m < n; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = apart * m + 16 * i;
            const bool seen = at >= from - first && at < to - first;
            x[m][i] = seen ? p[at * ALL] * by : -INFINITY;
            most = fm_max(x[m][i], most);
        }
#pragma unroll
    for (int i = ALL; i < 32; i *= 2) most = fm_max(__shfl_xor_sync(~0u, most, i), most);
#pragma unroll
    for (int m = 0; m < n; m++) {
        lanes[m] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = apart * m + 16 * i;
            const bool seen = at >= from - first && at < to - first;
            const float w = exp_below(fm_max(FM_BELOW_MIN, x[m][i] - most));
            p[at * ALL] = seen ? w : UNSEEN_WEIGHT;
            if (seen) lanes[m] = lanes[m] + w;
        }
    }
#pragma unroll
    for (int half = n / 2; half; half /= 2)
#pragma unroll
        for (int m = 0; m < half; m++) lanes[m] = lanes[m] + lanes[m + half];
#pragma unroll
    for (int i = 16; i >= ALL; i /= 2) lanes[0] = lanes[0] + __shfl_xor_sync(~0u, lanes[0], i);
    *sum = lanes[0];
    return most;
}

/* Keys of a tile: those that some unit sees, and those that all see which see any. */
typedef struct float_keys {
    int begin, end, from, to;
} float_keys;

/* Elements of values from `at` on of one key, of which `there` are. */
template <int T, int N, class M>
__device__ __forceinline__ void value_floats(const uint8_t *at, int there, bool aligned, float to[N])
{
    if constexpr (!M::ring)
        if (!aligned) {
#pragma unroll
            for (int i = 0; i < N; i++)
                to[i] = i >= there           ? 0
                        : T == DTYPE_F16 ? half_float(((const uint16_t *)at)[i])
                                         : ((const float *)at)[i];
            return;
        }
    cache_floats<T, N>(at, to);
}

/* Adds n values, rows `pitch` bytes apart; p: weights of the first key. */
template <int T, class S, class M, bool TESTS>
__device__ __forceinline__ void add_keys(const uint8_t *at, int pitch, int n, int there, bool aligned, const float *p,
                                         float sum[S::units][S::elements])
{
#pragma unroll 2
    for (int j = 0; j < n; j++, at += pitch, p += S::all) {
        float v[S::elements], w[S::units];
        value_floats<T, S::elements, M>(at, there, aligned, v);
        shared_floats<S::units>(p, w);
#pragma unroll
        for (int i = 0; i < S::units; i++) {
            if (TESTS && w[i] < 0) continue;
#pragma unroll
            for (int e = 0; e < S::elements; e++) sum[i][e] = fmaf(w[i], v[e], sum[i][e]);
        }
    }
}

/* Sums of weights times values of a tile for the lane's units; its elements begin at `at`. p: weights from its first
 * unit on. */
template <int T, class S, class M>
__device__ __forceinline__ void float_values(M &source, const uint8_t *values, int dim, int at, const float *p, float_keys k,
                                             float sum[S::units][S::elements])
{
    typedef attn_pieces<T> P;
    const bool aligned = dim % S::elements == 0;
    const int there = dim - at, row = dim * P::size, pitch = M::ring ? ATTN_WIDTH * P::size : row;
    constexpr int each = M::ring ? P::values : PAGE_TOKENS; /* values of a piece */
#pragma unroll 1
    for (int first = 0; first < PAGE_TOKENS; first += each) {
        const int from = first > k.begin ? first : k.begin, to = first + each < k.end ? first + each : k.end;
        source.take();
        if (from < to) {
            const uint8_t *of = source.value_floats(values, row, from, M::ring || there > 0 ? at : 0);
            const float *w = p + from * S::all;
            if (from >= k.from && to <= k.to) add_keys<T, S, M, false>(of, pitch, to - from, there, aligned, w, sum);
            else add_keys<T, S, M, true>(of, pitch, to - from, there, aligned, w, sum);
        }
        source.give();
    }
}
