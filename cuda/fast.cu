/* fast.cu - kernels of the ops that take most of the time of a step, in the bits of their definitions. */
#include "cuda/prelude.cuh"

#include <cuda_fp16.h>

#include "cuda/attn.cuh"
#include "cuda/fmatmul.cuh"
#include "cuda/qmatmul.cuh"
#include "cuda/rows.cuh"
#include "cuda/small.cuh"
