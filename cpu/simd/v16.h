/* v16.h - sixteen floats as one value: the lanes of the arithmetic contract, on AVX2 (v16_avx2.h: two registers),
 * AVX-512 (v16_avx512.h: one) and NEON (v16_neon.h: four).
 *
 * Kernel bodies (v_*.h) are written once over this header and compiled once per instruction set, in kernels_<isa>.c.
 * Every operation rounds as its scalar counterpart does, so that a body that follows its reference lane by lane has
 * the same bits. */
#pragma once
#include "cpu/fetch_way.h"
#include "tensor/dtype.h"

#include <stdint.h>
#include <string.h>

#define INLINE         static inline __attribute__((always_inline))
#define UNROLL         _Pragma("GCC unroll 8")
/* Goes over i = 0 … n - 1, unrolled: n is known at compile time. */
#define UNROLLED(i, n) UNROLL for (int i = 0; i < (n); i++)

#if defined(__x86_64__)
#include "cpu/simd/v16_x86.h"
#else
#include "cpu/simd/v16_neon.h"
#endif

/* Number of values of sixteen lanes that the registers hold. */
enum { V16S = VREGS * VREG_LANES / 16 };

/* Prefetches the line at an address, which need not be mapped, to the first-level cache. */
INLINE void prefetch_near(const void *p) { __builtin_prefetch(p, 0, 3); }
/* The same by a way (fetch_way.h), known where it is compiled. */
INLINE void prefetch_by(fetch_way way, const void *p)
{
    if (way == FETCH_NEAR || way == FETCH_SPLIT) prefetch_near(p);
#if defined(__aarch64__)
    if (way == FETCH_FAR) __builtin_prefetch(p, 0, 2);
#else
    if (way == FETCH_FAR) __builtin_prefetch(p, 0, 1);
#endif
}

/* Elements i … i + 15 of a row of floats of type f32, f16 or bf16, in place (any alignment). */
INLINE v16 v16_load_as(dtype t, const uint8_t *row, int64_t i)
{
    if (t == DTYPE_F16) return v16_load_f16(row + 2 * i);
    if (t == DTYPE_BF16) return v16_load_bf16(row + 2 * i);
    return v16_load((const float *)(const void *)(row + 4 * i));
}

/* The same for the last n < 16 elements, zeros beyond: nothing after the row is read. */
INLINE v16 v16_load_as_part(dtype t, const uint8_t *row, int64_t i, int n)
{
    if (t == DTYPE_F32) return v16_load_part((const float *)(const void *)(row + 4 * i), n);
    uint16_t h[16] = {0};
    memcpy(h, row + 2 * i, 2 * (size_t)n);
    return t == DTYPE_F16 ? v16_load_f16(h) : v16_load_bf16(h);
}
