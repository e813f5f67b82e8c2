/* qtile_avx2.c - the bodies of v_qtile.h compiled for AVX2. */
#include "cpu/simd/v_qtile.h"
