/* fmatmul.cuh - products of float weights with float activations, in the bits of ops/def_matmul.c: sixteen partial sums
 * by column mod 16, each a chain of fused multiply-adds, folded 8, 4, 2, 1. A half warp has an output: a lane is a
 * partial sum, and takes ROWS rows of activations along. */
#pragma once
#include "cuda/cuda_args.h"

enum { FMAT_OUTPUTS = FMAT_THREADS / 16 };

template <int TYPE> __device__ __forceinline__ float fmat_weight(const uint8_t *row, int64_t k)
{
    if constexpr (TYPE == DTYPE_F32) return __ldg((const float *)row + k);
    const uint16_t h = __ldg((const uint16_t *)row + k);
    return TYPE == DTYPE_F16 ? half_float(h) : __uint_as_float((uint32_t)h << 16);
}

template <int TYPE, int ROWS> __device__ void fmatmul(const fmat_args &a)
{
    enum { AHEAD = 8 };
    const int lane = (int)threadIdx.x % 16;
    const int64_t mine = (int64_t)blockIdx.y * FMAT_OUTPUTS + threadIdx.x / 16, row0 = (int64_t)blockIdx.x * ROWS;
    const int64_t n = mine < a.of.n ? mine : a.of.n - 1; /* a half warp beyond the end computes the last output, for nobody */
    const int64_t left = *a.of.live - row0;
    if (left <= 0) return;
    const int32_t expert = a.of.table ? a.of.table[row0 * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
    if (expert < 0) return;
    const int rows = (int)(left < ROWS ? left : ROWS);
    const uint8_t *w = a.w + (uint64_t)((int64_t)expert * a.of.n + n) * (uint64_t)a.of.cols * (TYPE == DTYPE_F32 ? 4 : 2);
    const float *x = a.x + row0 * a.of.x_cols + n / a.of.head_rows * a.of.cols;
    float sum[ROWS];
#pragma unroll
    for (int m = 0; m < ROWS; m++) sum[m] = 0;
    int64_t k = lane;
    for (; k + (AHEAD - 1) * 16 < a.of.cols; k += AHEAD * 16) {
        float by[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) by[i] = fmat_weight<TYPE>(w, k + 16 * i);
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            if (m < rows)
#pragma unroll
                for (int i = 0; i < AHEAD; i++) sum[m] = fmaf(by[i], __ldg(x + m * a.of.x_cols + k + 16 * i), sum[m]);
    }
    for (; k < (a.of.cols + 15) / 16 * 16; k += 16) {
        const float by = k < a.of.cols ? fmat_weight<TYPE>(w, k) : 0;
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            if (m < rows) sum[m] = fmaf(by, k < a.of.cols ? x[m * a.of.x_cols + k] : 0, sum[m]);
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
#pragma unroll
        for (int half = 8; half; half /= 2) sum[m] = sum[m] + __shfl_xor_sync(~0u, sum[m], half);
        if (lane == 0 && m < rows && mine < a.of.n)
            a.of.y[(row0 + m) * a.of.n + n] = a.of.bias ? sum[m] + a.of.bias[(int64_t)expert * a.of.n + n] : sum[m];
    }
}

#define FMAT_KERNEL(name, type, rows)                                                                                  \
    extern "C" __global__ void __launch_bounds__(FMAT_THREADS) cuda_fmat_##name##_##rows(const fmat_args a)            \
    {                                                                                                                  \
        fmatmul<type, rows>(a);                                                                                        \
    }
FMAT_KERNEL(f32, DTYPE_F32, 1)
FMAT_KERNEL(f32, DTYPE_F32, 8)
FMAT_KERNEL(f16, DTYPE_F16, 1)
FMAT_KERNEL(f16, DTYPE_F16, 8)
FMAT_KERNEL(bf16, DTYPE_BF16, 1)
FMAT_KERNEL(bf16, DTYPE_BF16, 8)
