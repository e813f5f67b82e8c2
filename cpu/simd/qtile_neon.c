/* qtile_neon.c - the bodies of v_qtile.h compiled for NEON of any 64-bit Arm processor. */
#include "cpu/simd/v_qtile.h"
