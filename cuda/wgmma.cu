/* wgmma.cu - kernels for many rows that capability 9.0 alone runs, in the bits of their definitions. */
#include "cuda/prelude.cuh"

#include "cuda/half_float.cuh"

#include "cuda/qwgmma.cuh"
