/* prefill.cu - kernels for many rows, in the bits of their definitions. */
#include "cuda/prelude.cuh"

#include "cuda/half_float.cuh"

#include "cuda/qprefill.cuh"
