/* kernels_neon.c - the kernel bodies of v_*.h compiled for NEON of any 64-bit Arm processor. */
#include "cpu/simd/v_table.h"

const cpu_table cpu_table_neon = V_TABLE("neon", CPU_NEON);
