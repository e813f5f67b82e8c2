/* qtile_avx512.c - the bodies of v_qtile.h and v_qwide.h compiled for AVX-512. */
#include "cpu/simd/v_qwide.h"
