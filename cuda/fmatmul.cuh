/* fmatmul.cuh - products of float weights with float activations, in the bits of ops/def_matmul.c: sixteen partial sums
 * by column mod 16, each a chain of fused multiply-adds, folded 8, 4, 2, 1.
 *
 * A warp has eight outputs. Four lanes share one: a lane has four neighbouring partial sums, so that one load gives four
 * weights and one four activations, and takes ROWS rows of activations along. Weights stream into a ring of shared
 * memory that each warp has for itself (cp.async), FMAT_PIECE bytes of each output a stage. In the ring outputs lie
 * sixteen columns further apart than they are long: what lanes read at once is in different banks.
 *
 * Rows that do not begin at multiples of 16 bytes, and what follows the last whole stage, are loaded where they lie.
 *
 * Bound: bytes of weights over the read bandwidth; with eight rows instructions come near it (3.7 a weight at one row,
 * 13.4 at eight in PTX, where an H200 has time for 15.6 a weight of 16 bits). */
#pragma once
#include "cuda/cuda_args.h"
#include "cuda/dependent.cuh"
#include "cuda/kept.cuh"

extern __shared__ __align__(16) uint8_t fmat_shared[];

/* Sixteen bytes of a row. */
enum { FMAT_PIECES = FMAT_PIECE / 16, FMAT_COPIES = FMAT_WARP_OUTPUTS * FMAT_PIECES / 32 };

template <int TYPE> struct fmat_shape {
    static constexpr int size = TYPE == DTYPE_F32 ? 4 : 2, columns = FMAT_PIECE / size; /* of a stage */
    static constexpr int pitch = FMAT_PITCH(size), stage = FMAT_WARP_OUTPUTS * pitch;
};

template <int TYPE> __device__ __forceinline__ float fmat_float(uint16_t h)
{
    return TYPE == DTYPE_F16 ? half_float(h) : __uint_as_float((uint32_t)h << 16);
}

/* Four weights of the ring. */
template <int TYPE> __device__ __forceinline__ float4 fmat_weights(const uint8_t *at)
{
    if constexpr (TYPE == DTYPE_F32) return *(const float4 *)at;
    if constexpr (TYPE == DTYPE_BF16) {
        const uint2 two = *(const uint2 *)at;
        return make_float4(__uint_as_float(two.x << 16), __uint_as_float(two.x & 0xffff0000),
                           __uint_as_float(two.y << 16), __uint_as_float(two.y & 0xffff0000));
    }
    const ushort4 h = *(const ushort4 *)at;
    return make_float4(fmat_float<TYPE>(h.x), fmat_float<TYPE>(h.y), fmat_float<TYPE>(h.z), fmat_float<TYPE>(h.w));
}

template <int TYPE> __device__ __forceinline__ float fmat_weight(const uint8_t *row, int64_t k)
{
    if constexpr (TYPE == DTYPE_F32) return __ldg((const float *)row + k);
    return fmat_float<TYPE>(__ldg((const uint16_t *)row + k));
}

/* What a warp copies of a stage: a lane's pieces are of every second output. */
template <int TYPE> struct fmat_copy {
    const uint8_t *from[FMAT_COPIES];
    uint32_t to;

    __device__ __forceinline__ void bring(int64_t byte, int slot) const
    {
#pragma unroll
        for (int i = 0; i < FMAT_COPIES; i++)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + slot + i * 2 * fmat_shape<TYPE>::pitch),
                         "l"(from[i] + byte)
                         : "memory");
    }
};

/* Sums of a lane over a stage. at: its weights there; x: its activations of the first row, others x_row bytes on. */
template <int TYPE, int ROWS>
__device__ __forceinline__ void fmat_stage(const uint8_t *at, const float *x, const int *x_row, float4 *sum)
{
    typedef fmat_shape<TYPE> Z;
    const float4 *of[ROWS];
#pragma unroll
    for (int m = 0; m < ROWS; m++) of[m] = (const float4 *)((const uint8_t *)x + x_row[m]);
#pragma unroll
    for (int k = 0; k < Z::columns; k += 16) {
        const float4 w = fmat_weights<TYPE>(at + k * Z::size);
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            const float4 v = of[m][k / 4];
            sum[m] = make_float4(fmaf(w.x, v.x, sum[m].x), fmaf(w.y, v.y, sum[m].y), fmaf(w.z, v.z, sum[m].z),
                                 fmaf(w.w, v.w, sum[m].w));
        }
    }
}

/* And over columns k to the last, by sixteen; those behind it are zeros. part: the lane's first partial sum. */
template <int TYPE, int ROWS>
__device__ __forceinline__ void fmat_rest(const uint8_t *w, const float *x, const int *x_row, int64_t k, int64_t cols,
                                          int part, float4 *sum)
{
#pragma unroll 1
    for (; k < cols; k += 16)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t at = k + part + i;
            const float by = at < cols ? fmat_weight<TYPE>(w, at) : 0;
#pragma unroll
            for (int m = 0; m < ROWS; m++) {
                float &to = i == 0 ? sum[m].x : i == 1 ? sum[m].y : i == 2 ? sum[m].z : sum[m].w;
                to = fmaf(by, at < cols ? ((const float *)((const uint8_t *)x + x_row[m]))[at] : 0, to);
            }
        }
}

template <int TYPE, int ROWS> __device__ void fmatmul(const fmat_args &a)
{
    typedef fmat_shape<TYPE> Z;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, part = lane % 4 * 4;
    const int64_t row0 = (int64_t)blockIdx.x * ROWS, left = *a.live - row0, cols = a.cols;
    let_next_begin();
    if (left <= 0 || a.table) wait_for_last();
    if (left <= 0) return;
    const int32_t expert = a.table ? a.table[row0 * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
    if (expert < 0) return;
    product_part of = a.part[0];
#pragma unroll
    for (int i = 1; i < PRODUCT_PARTS; i++)
        if (i < a.parts && (int)blockIdx.y >= a.part[i].first) of = a.part[i];
    const int rows = (int)(left < ROWS ? left : ROWS);
    const int64_t n0 = (int64_t)((int)blockIdx.y - of.first) * FMAT_OUTPUTS + warp * FMAT_WARP_OUTPUTS, mine = n0 + lane / 4;
    /* Lanes beyond the end compute the last output, for nobody. */
    const auto there = [&](int64_t n) { return n < of.n ? n : of.n - 1; };
    const uint64_t stride = (uint64_t)cols * Z::size; /* of.stride: a register less than that would take */
    const uint8_t *matrix = of.w + (uint64_t)((int64_t)expert * of.n) * stride, *w = matrix + (uint64_t)there(mine) * stride;
    const float *x = a.x + row0 * a.x_cols + there(mine) / a.head_rows * cols;
    int x_row[ROWS];
#pragma unroll
    for (int m = 0; m < ROWS; m++) x_row[m] = kept(m < rows ? m * (int)a.x_cols * 4 : 0);
    fmat_copy<TYPE> copy;
#pragma unroll
    for (int i = 0; i < FMAT_COPIES; i++)
        copy.from[i] = matrix + (uint64_t)there(n0 + 2 * i + lane / FMAT_PIECES) * stride + lane % FMAT_PIECES * 16;
    copy.to = (uint32_t)__cvta_generic_to_shared(fmat_shared + warp * FMAT_RING(Z::size) + lane / FMAT_PIECES * Z::pitch +
                                                 lane % FMAT_PIECES * 16);
    const bool aligned = (((uintptr_t)of.w | stride | (uintptr_t)a.x | (uint64_t)(a.x_cols | cols) * 4) & 15) == 0;
    const int stages = aligned ? (int)(cols / Z::columns) : 0;
    float4 sum[ROWS];
#pragma unroll
    for (int m = 0; m < ROWS; m++) sum[m] = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int s = 0; s < FMAT_DEPTH; s++) {
        if (s < stages) copy.bring((int64_t)s * FMAT_PIECE, s * Z::stage);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    wait_for_last();
    const uint8_t *ring = fmat_shared + warp * FMAT_RING(Z::size) + lane / 4 * Z::pitch + part * Z::size;
    int slot = 0;
#pragma unroll 1
    for (int s = 0; s < stages; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(FMAT_DEPTH - 1) : "memory");
        __syncwarp();
        fmat_stage<TYPE, ROWS>(ring + slot, x + (int64_t)s * Z::columns + part, x_row, sum);
        __syncwarp();
        if (s + FMAT_DEPTH < stages) copy.bring((int64_t)(s + FMAT_DEPTH) * FMAT_PIECE, slot);
        asm volatile("cp.async.commit_group;" ::: "memory");
        slot = slot + Z::stage < FMAT_RING(Z::size) ? slot + Z::stage : 0;
    }
    fmat_rest<TYPE, ROWS>(w, x, x_row, (int64_t)stages * Z::columns, cols, part, sum);
#pragma unroll
    for (int m = 0; m < ROWS; m++) {
        float v[4] = {sum[m].x, sum[m].y, sum[m].z, sum[m].w};
#pragma unroll
        for (int half = 2; half; half /= 2)
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] = v[i] + __shfl_xor_sync(~0u, v[i], half);
        const float y = v[0] + v[2] + (v[1] + v[3]);
        if (part == 0 && m < rows && mine < of.n)
            of.y[(row0 + m) * of.n + mine] = of.bias ? y + of.bias[(int64_t)expert * of.n + mine] : y;
    }
}

#define FMAT_KERNEL(name, type, rows)                                                                                  \
    extern "C" __global__ void __launch_bounds__(FMAT_THREADS) cuda_fmat_##name##_##rows(const __grid_constant__ fmat_args a) \
    {                                                                                                                  \
        fmatmul<type, rows>(a);                                                                                        \
    }
FMAT_KERNEL(f32, DTYPE_F32, 1)
FMAT_KERNEL(f32, DTYPE_F32, 8)
FMAT_KERNEL(f16, DTYPE_F16, 1)
FMAT_KERNEL(f16, DTYPE_F16, 8)
FMAT_KERNEL(bf16, DTYPE_BF16, 1)
FMAT_KERNEL(bf16, DTYPE_BF16, 8)
