/* qtile_dotprod.c - the bodies of v_qtile.h compiled for NEON with its multiplier of bytes in groups of four (Armv8.2
 * and FEAT_DotProd). */
#include "cpu/simd/v_qtile.h"
