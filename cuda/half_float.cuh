/* half_float.cuh - f16 to float. */
#pragma once
#include <cuda_fp16.h>

/* f16_to_f32 by the device's instruction: the same value, and any NaN for a NaN. Behind the branches of half.h each load
 * of a loop waits for the one before; attention over f16 was ten times as slow. */
__device__ __forceinline__ float half_float(uint16_t h) { return __half2float(__ushort_as_half(h)); }
