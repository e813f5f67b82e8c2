/* kernels_avxvnni.c - the kernel bodies of v_*.h compiled for AVX2, FMA, F16C and the multiplier of bytes on 256 bits
 * (AVX-VNNI). */
#include "cpu/simd/v_table.h"

const cpu_table cpu_table_avxvnni = V_TABLE("avxvnni", CPU_AVX2 | CPU_AVXVNNI);
