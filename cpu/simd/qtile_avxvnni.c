/* qtile_avxvnni.c - the bodies of v_qtile.h compiled for AVX2 with the multiplier of bytes (AVX-VNNI). */
#include "cpu/simd/v_qtile.h"
