/* wide.cuh - what surrounds a product of cuBLAS (--exact off): both operands as bfloat16 or float16, scales and bias
 * behind it.
 *
 * Packed weights become rows of bfloat16, a strip of outputs at a time. Activations become the type of the weights: a
 * row goes to float16 times a power of two that keeps its greatest element below 2^14, so that it neither overflows nor
 * loses its small elements. */
#pragma once
#include "cuda/cuda_args.h"
#include "cuda/span_place.cuh"
#include "cuda/warp_max.cuh"
#include "src/tensor/act_q8.h"

/* A thread has a block of weights of a row. */
extern "C" __global__ void __launch_bounds__(WIDE_THREADS) cuda_wide_weights(const wide_weights a)
{
    const panel_format *f = panel_format_of((dtype)a.type);
    const int64_t blocks = (a.cols + f->block - 1) / f->block, i = (int64_t)blockIdx.x * WIDE_THREADS + threadIdx.x;
    if (i >= a.rows * blocks) return;
    const int64_t row = i % a.rows, n = a.row0 + row, k = i / a.rows * f->block;
    const int r = (int)(n % PANEL_ROWS);
    const span_place at = span_of(f, a.w + (uint64_t)(n / PANEL_ROWS) * a.stride, a.cols, k);
    const panel_block of = panel_block_get(f, at.span, r, at.tiles, at.k / f->block);
    for (int j = 0; j < f->block && k + j < a.cols; j++)
        a.to[row * a.cols + k + j] = f32_to_bf16(panel_weight(f, at.span, r, at.tiles, at.k + j, of));
}

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
