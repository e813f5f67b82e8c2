/* gpu.h - C that nvcc compiles for GPUs as it stands (cuda/definitions.cu includes it): GPU_CODE stands before such a
 * function, GPU_DATA before a table that it reads. Inline functions of headers need neither: there `inline` says it.
 * For processors both are nothing. */
#pragma once

#ifdef __CUDACC__
#define GPU_CODE __host__ __device__
#define GPU_DATA __device__
#else
#define GPU_CODE
#define GPU_DATA
#endif
