/* quant.cuh - a block of activations as int8 codes, in the bits of act_encode, by a warp. */
#pragma once
#include "cuda/cuda_args.h"

#include "src/tensor/act_q8.h"

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

/* Block b of a row of codes: of q.x, of which n are there. residual: of what codes of the row leave. */
__device__ __forceinline__ void quant_put(quant_lane &q, int n, const act_part &p, int64_t b, int block, bool residual)
{
    const int lane = (int)threadIdx.x % 32;
    float scale = quant_encode_block(q, n, block, lane);
    if (residual) {
#pragma unroll
        for (int i = 0; i < 2; i++) q.x[i] = fmaf(-scale, (float)q.code[i], q.x[i]);
        scale = quant_encode_block(q, n, block, lane);
    }
    /* Sums of 16 codes: lanes 0 … 15 and 16 … 31 of each half. */
    int sum[2] = {q.code[0], q.code[1]};
#pragma unroll
    for (int half = 8; half; half /= 2)
#pragma unroll
        for (int i = 0; i < 2; i++) sum[i] += __shfl_xor_sync(~0u, sum[i], half);
    const int s0 = __shfl_sync(~0u, sum[0], 0), s1 = __shfl_sync(~0u, sum[0], 16), s2 = __shfl_sync(~0u, sum[1], 0),
              s3 = __shfl_sync(~0u, sum[1], 16), all = s0 + s1 + s2 + s3;
    p.code[b * block + lane] = (int8_t)q.code[0];
    if (block == 64) p.code[b * block + 32 + lane] = (int8_t)q.code[1];
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
