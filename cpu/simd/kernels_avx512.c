/* kernels_avx512.c - the kernel bodies of v_*.h compiled for AVX-512. */
#include "cpu/simd/v_table.h"

const cpu_table cpu_table_avx512 = V_TABLE("avx512", CPU_AVX2 | CPU_AVX512);
