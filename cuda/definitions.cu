/* definitions.cu - the definitions of all ops (src/ops) as kernels, in which each thread is a worker. So the device has
 * every op, with the bits of its definition; fast.cu has faster kernels where they pay. */
#include "cuda/prelude.cuh"

extern "C" {
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
#include "src/ops/def_recur.c"
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
}
