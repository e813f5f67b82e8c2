/* gated.cuh - the end of a launch of two products that are multiplied, one by way of a function, and coded: ACT, MUL, QUANT
 * of 64 outputs by the block of threads that ends them last. */
#pragma once
#include "cuda/quant.cuh"

#include "core/act_value.h"

/* Of rows [row0, row0 + rows); one function for all kernels, called when their registers are free. */
static __device__ __noinline__ void gated_codes(const qdecode_args &a, int row0, int rows)
{
    const gated_end &end = a.end;
    const int warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int blocks = GATED_PANELS * a.share / warps, group = (int)blockIdx.y / blocks;
    const int64_t n = a.part[0].n, column = (int64_t)group * GATED_COLUMNS;
    const float *gate = a.part[end.gate].y + column + lane, *up = a.part[1 - end.gate].y + column + lane;
    int ends = blocks == 1;
    __syncthreads();
    if (threadIdx.x == 0 && blocks > 1) {
        const int at = (int)blockIdx.x * (a.panels / GATED_PANELS) + group;
        __threadfence();
        ends = atomicInc(&end.turns[at], (unsigned)blocks - 1) == blocks - 1;
        __threadfence();
    }
    if (!__syncthreads_or(ends)) return;
    for (int k = 0; k < end.n; k++) {
        const codes_to &to = end.codes[k];
        const int each = GATED_COLUMNS / to.block;
        for (int i = warp; i < rows * each; i += warps) {
            const int64_t row = row0 + i / each, at = row * n + i % each * to.block;
            quant_lane q;
#pragma unroll
            for (int h = 0; h < 2; h++)
                q.x[h] = 32 * h < to.block ? act_value(end.act, __ldcg(gate + at + 32 * h)) * __ldcg(up + at + 32 * h) : 0;
            quant_put(q, to.block, act_parts(to.y, (row_tile){row, 1}, n, to.block), column / to.block + i % each,
                      to.block, to.residual);
        }
    }
}
