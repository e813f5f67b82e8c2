/* warp_max.cuh - the greatest number of the lanes of a warp; NaN counts as nothing. */
#pragma once
#include "src/base/fmath.h"

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int apart = 16; apart; apart /= 2) x = fm_max(__shfl_xor_sync(~0u, x, apart), x);
    return x;
}
