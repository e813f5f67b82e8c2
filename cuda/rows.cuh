/* rows.cuh - ops on single rows of which the definition is one chain, or a loop, a row: norms, activations as int8, the
 * best logit. In the bits of their definitions: what is a maximum or a sum of integers may be taken in any order, what
 * is a sum of floats keeps its sixteen lanes. */
#pragma once
#include "cuda/cuda_args.h"

#include "src/tensor/act_q8.h"

enum { NORM_PART = 4096 }; /* floats of a row in shared memory */

/* The sixteen sums over x - mean or its square, folded: for all threads. */
template <bool SQUARES> __device__ float norm_sum(const float *x, int width, float mean, float *part, float *folded)
{
    float sum = 0;
    const int lane = (int)threadIdx.x;
    for (int from = 0; from < width; from += NORM_PART) {
        const int n = width - from < NORM_PART ? width - from : NORM_PART;
        __syncthreads();
        for (int i = lane; i < n; i += NORM_THREADS) part[i] = x[from + i];
        __syncthreads();
        if (lane < 16)
#pragma unroll 8
            for (int i = lane; i < n; i += 16) {
                const float d = part[i] - mean;
                sum = SQUARES ? fmaf(d, d, sum) : sum + part[i];
            }
    }
    if (lane < 16) {
#pragma unroll
        for (int half = 8; half; half /= 2) sum = sum + __shfl_xor_sync(0xffffu, sum, half);
        if (lane == 0) *folded = sum;
    }
    __syncthreads();
    return *folded;
}

extern "C" __global__ void __launch_bounds__(NORM_THREADS) cuda_norm(const norm_args a)
{
    __shared__ float part[NORM_PART], folded;
    if (blockIdx.x >= *a.live * a.groups) return;
    const float *x = a.x + (int64_t)blockIdx.x * a.width;
    float *y = a.y + (int64_t)blockIdx.x * a.width, mean = 0;
    const int64_t at = (int64_t)blockIdx.x % a.groups * a.width;
    const float *gain = a.gain ? a.gain + at % a.gain_n : NULL, *bias = a.bias ? a.bias + at % a.bias_n : NULL;
    if (a.kind == NORM_LAYER) mean = norm_sum<false>(x, a.width, 0, part, &folded) / (float)a.width;
    const float sum = norm_sum<true>(x, a.width, mean, part, &folded);
    float inv = 1.0f / sqrtf(sum / (float)a.width + a.eps);
    if (a.kind == NORM_L2) inv = 1.0f / fmaxf(sqrtf(sum), a.eps);
    for (int i = (int)threadIdx.x; i < a.width; i += NORM_THREADS) {
        float v = (x[i] - mean) * inv;
        if (gain) v = v * gain[i];
        if (bias) v = v + bias[i];
        y[i] = v;
    }
}

/* What a warp knows of a block: lane l has elements l and, of blocks of 64, l + 32. */
typedef struct quant_lane {
    float x[2];
    int code[2];
} quant_lane;

/* act_encode: scale of the block, and codes. */
__device__ __forceinline__ float quant_encode_block(quant_lane &q, int n, int block, int lane)
{
    float most = 0;
    bool odd = false;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const bool there = lane + 32 * i < n && 32 * i < block;
        if (!there) q.x[i] = 0;
        most = fabsf(q.x[i]) > most ? fabsf(q.x[i]) : most;
        odd = odd || !(fabsf(q.x[i]) < INFINITY);
    }
#pragma unroll
    for (int half = 16; half; half /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, half));
    const bool finite = !__any_sync(~0u, odd), tiny = !(most >= ACT_TINY);
    const float inverse = !finite || tiny ? 0 : 127 / most;
#pragma unroll
    for (int i = 0; i < 2; i++) q.code[i] = lane + 32 * i < n && finite ? (int)(int8_t)rintf(q.x[i] * inverse) : 0;
    return !finite ? NAN : tiny ? 0 : most / 127;
}

extern "C" __global__ void __launch_bounds__(QUANT_THREADS) cuda_quant(const quant_args a)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t padded = act_padded(a.cols), blocks = padded / a.block,
                  u = (int64_t)blockIdx.x * (QUANT_THREADS / 32) + threadIdx.x / 32;
    if (u >= *a.live * blocks) return;
    const int64_t m = u / blocks, b = u % blocks, k = b * a.block, left = a.cols - k;
    const int n = (int)(left < 0 ? 0 : left < a.block ? left : a.block);
    quant_lane q;
#pragma unroll
    for (int i = 0; i < 2; i++) q.x[i] = lane + 32 * i < n ? a.x[m * a.cols + k + lane + 32 * i] : 0;
    float scale = quant_encode_block(q, n, a.block, lane);
    if (a.residual) {
#pragma unroll
        for (int i = 0; i < 2; i++) q.x[i] = fmaf(-scale, (float)q.code[i], q.x[i]);
        scale = quant_encode_block(q, n, a.block, lane);
    }
    /* Sums of 16 codes: lanes 0 … 15 and 16 … 31 of each half. */
    int sum[2] = {q.code[0], q.code[1]};
#pragma unroll
    for (int half = 8; half; half /= 2)
#pragma unroll
        for (int i = 0; i < 2; i++) sum[i] += __shfl_xor_sync(~0u, sum[i], half);
    const act_part p = act_parts(a.to, (row_tile){m, 1}, a.cols, a.block);
    const int s0 = __shfl_sync(~0u, sum[0], 0), s1 = __shfl_sync(~0u, sum[0], 16), s2 = __shfl_sync(~0u, sum[1], 0),
              s3 = __shfl_sync(~0u, sum[1], 16), all = s0 + s1 + s2 + s3;
    p.code[b * a.block + lane] = (int8_t)q.code[0];
    if (a.block == 64) p.code[b * a.block + 32 + lane] = (int8_t)q.code[1];
    if (lane) return;
    p.scale[b] = scale;
    p.scaled_sum[b] = scale * (float)all;
    p.neg_sum[b] = -all;
    if (!p.neg_subsums) return;
    int16_t *to = p.neg_subsums + b * ACT_SUBSUMS;
    to[0] = (int16_t) - (s0 + s1);
    to[1] = (int16_t) - (s2 + s3);
    to[2] = (int16_t)-s0;
    to[3] = (int16_t)-s1;
    to[4] = (int16_t)-s2;
    to[5] = (int16_t)-s3;
}

/* The best logit of a row, by a block; core/best_logit.h: of equals the first, and {0, NaN} where one is NaN. */
extern "C" __global__ void cuda_pick(const float *logits, int64_t n, best_logit *to)
{
    __shared__ best_logit best[PICK_THREADS];
    __shared__ int odd;
    const float *row = logits + (int64_t)blockIdx.x * n;
    best_logit mine = {0, -INFINITY};
    if (threadIdx.x == 0) odd = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += PICK_THREADS) {
        if (row[i] != row[i]) atomicExch(&odd, 1);
        if (row[i] > mine.value) mine = (best_logit){(int32_t)i, row[i]};
    }
    best[threadIdx.x] = mine;
    for (unsigned half = PICK_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        const best_logit a = best[threadIdx.x], b = best[threadIdx.x + half];
        if (b.value > a.value || (b.value == a.value && b.id < a.id)) best[threadIdx.x] = b;
    }
    if (threadIdx.x == 0) to[blockIdx.x] = odd ? (best_logit){0, NAN} : best[0];
}
