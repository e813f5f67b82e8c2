/* wide.cu - what surrounds products of cuBLAS (--exact off). */
#include "cuda/prelude.cuh"

#include "cuda/wide.cuh"
