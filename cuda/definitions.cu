/* definitions.cu - the definitions of all ops (src/ops) as kernels: a worker is a thread of the grid. So the device has
 * every op, in every bit, and faster kernels are written where they pay.
 *
 * The C files are compiled as they are. `inline` says "for the host too" from here on: functions of headers are used
 * on both sides. */
#include <math.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define inline     inline __host__ __device__
#define restrict   __restrict__

extern "C" {
#include "core/best_logit.h"
#include "tensor/dtype.h"

GPU_DATA const dtype_row dtype_info[DTYPE_COUNT] = {
    {"none", 0, 0, -1},
#define X(id, name, weights, bytes, ggml) {name, weights, bytes, ggml},
    DTYPE_LIST(X)
#undef X
};

#include "src/tensor/quant_tables_level.c"
#include "src/tensor/panel_strip.c"
#include "src/tensor/act_q8.c"
#include "src/core/act_move.c"
#include "src/ops/def_act.c"
#include "src/ops/def_attn.c"
#include "src/ops/def_columns.c"
#include "src/ops/def_conv.c"
#include "src/ops/def_elementwise.c"
#include "src/ops/def_embed.c"
#include "src/ops/def_join.c"
#include "src/ops/def_kv.c"
#include "src/ops/def_matmul.c"
#include "src/ops/def_matmul_exp.c"
#include "src/ops/def_matmul_heads.c"
#include "src/ops/def_moe.c"
#include "src/ops/def_norm.c"
#include "src/ops/def_pool.c"
#include "src/ops/def_qmatmul.c"
#include "src/ops/def_quant.c"
#include "src/ops/def_rope.c"
#include "src/ops/def_route.c"
#include "src/ops/def_take_out.c"

/* Of the decoders of rows a device needs these three: quantized weights lie in panels, all others as floats. */
GPU_CODE void quant_decode_row(dtype t, const void *from, float *to, uint64_t n)
{
    const uint16_t *half = (const uint16_t *)from;
    for (uint64_t i = 0; i < n; i++)
        to[i] = t == DTYPE_F32 ? ((const float *)from)[i] : t == DTYPE_F16 ? f16_to_f32(half[i]) : bf16_to_f32(half[i]);
}

#define X(id, name, facts, doc)                                                                                        \
    __global__ void cuda_op_##name(const run *r, uint32_t i, int32_t workers)                                          \
    {                                                                                                                  \
        const int worker = (int)(blockIdx.x * blockDim.x + threadIdx.x);                                               \
        if (worker < workers) def_##name(r, &r->p->ops[i], worker, workers);                                           \
    }
KERNEL_LIST(X)
#undef X

/* Rows of activations on their way in and out; of codes by one thread: core/act_move.h. */
__global__ void cuda_move_in(const program *p, uint8_t *act, ref t, int64_t col0, int64_t cols, int64_t rows,
                             const uint8_t *from)
{
    act_move_in(p, act, t, col0, cols, rows, from);
}
__global__ void cuda_move_out(const program *p, uint8_t *act, ref t, int64_t row0, int64_t rows, uint8_t *to)
{
    act_move_out(p, act, t, row0, rows, to);
}
/* Columns col0 … col0 + cols - 1 of rows of `all` floats. */
__global__ void cuda_columns_in(float *to, const float *from, int64_t all, int64_t col0, int64_t cols, int64_t rows)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) to[i / cols * all + col0 + i % cols] = from[i];
}

/* The best logit of a row, by a block; core/best_logit.h: of equals the first, and {0, NaN} where one is NaN. */
__global__ void cuda_pick(const float *logits, int64_t n, best_logit *to)
{
    __shared__ best_logit best[256];
    __shared__ int odd;
    const float *row = logits + (int64_t)blockIdx.x * n;
    best_logit mine = {0, -INFINITY};
    if (threadIdx.x == 0) odd = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        if (row[i] != row[i]) atomicExch(&odd, 1);
        if (row[i] > mine.value) mine = (best_logit){(int32_t)i, row[i]};
    }
    best[threadIdx.x] = mine;
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        const best_logit a = best[threadIdx.x], b = best[threadIdx.x + half];
        if (b.value > a.value || (b.value == a.value && b.id < a.id)) best[threadIdx.x] = b;
    }
    if (threadIdx.x == 0) to[blockIdx.x] = odd ? (best_logit){0, NAN} : best[0];
}
}
