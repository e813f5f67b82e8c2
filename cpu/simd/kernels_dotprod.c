/* kernels_dotprod.c - the kernel bodies of v_*.h compiled for NEON with its multiplier of bytes in groups of four
 * (Armv8.2 and FEAT_DotProd). */
#include "cpu/simd/v_table.h"

const cpu_table cpu_table_dotprod = V_TABLE("dotprod", CPU_NEON | CPU_DOTPROD);
