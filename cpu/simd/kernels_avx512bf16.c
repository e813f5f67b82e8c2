/* kernels_avx512bf16.c - the kernel bodies of v_*.h compiled for AVX-512 with dot products of bfloat16: float matrices
 * are multiplied as in v_step.h, with other rounding than the definitions. */
#include "cpu/simd/v_table.h"

const cpu_table cpu_table_avx512bf16 = V_TABLE("avx512bf16", CPU_AVX2 | CPU_AVX512 | CPU_AVX512BF16);
