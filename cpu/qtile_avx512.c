/* qtile_avx512.c - the bodies of v_qtile.h compiled for AVX-512. */
#include "cpu/v_qtile.h"
