/* fast.cu - kernels of the ops that take most of the time of a step, in the bits of their definitions. */
#include "cuda/prelude.cuh"

#include "cuda/dependent.cuh"
#include "cuda/half_float.cuh"

#include "cuda/attn.cuh"
#include "cuda/fmatmul.cuh"
#include "cuda/qdecode.cuh"
#include "cuda/embed.cuh"
#include "cuda/heads.cuh"
#include "cuda/conv.cuh"
#include "cuda/recur.cuh"
#include "cuda/route.cuh"
#include "cuda/rows.cuh"
