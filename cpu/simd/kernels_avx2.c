/* kernels_avx2.c - the kernel bodies of v_*.h compiled for AVX2, FMA and F16C. */
#include "cpu/simd/v_table.h"

const cpu_table cpu_table_avx2 = V_TABLE("avx2", CPU_AVX2);
