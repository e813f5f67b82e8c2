/* v_step.h - one step along k of a MATMUL of floats: the elements that one multiplying instruction takes from a row.
 *
 * A step fills the sixteen lanes once. Exact: 16 elements as float32, lane i the element i. With AVX-512 BF16
 * (`--exact off`): 32 elements rounded to bfloat16, ties to even, lane i the elements 2 i and 2 i + 1, both products
 * of which one instruction adds to the lane's float32 sum. The order of sums differs and either factor has 8 bits of
 * precision instead of 24. But the order is as fixed: k ascends and lanes are folded at the end, so results are the
 * same for any batch, chunk and number of threads. Subnormal numbers count as zero. */
#pragma once
#include "cpu/simd/v16.h"

#if defined(__AVX512BF16__)

enum { STEP = 32 };

/* The step of elements `low` and, after them, `high`. */
INLINE v16 step_of(v16 low, v16 high) { return (v16)_mm512_cvtne2ps_pbh(high, low); }

/* Elements i … i + STEP - 1 of a row of f32, f16 or bf16. */
INLINE v16 step_load(dtype t, const uint8_t *row, int64_t i)
{
    if (t == DTYPE_BF16) return v16_load((const float *)(const void *)(row + 2 * i));
    return step_of(v16_load_as(t, row, i), v16_load_as(t, row, i + LANES));
}

/* The same for the last n < STEP elements, zeros beyond: nothing after the row is read. */
INLINE v16 step_load_part(dtype t, const uint8_t *row, int64_t i, int n)
{
    if (n <= LANES) return step_of(v16_load_as_part(t, row, i, n), v16_zero());
    return step_of(v16_load_as(t, row, i), v16_load_as_part(t, row, i + LANES, n - LANES));
}

/* sum + products of a step, by lane; the same on one register. */
INLINE v16 step_dot(v16 w, v16 x, v16 sum) { return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x); }
INLINE vreg vreg_dot(vreg w, vreg x, vreg sum) { return step_dot(w, x, sum); }
INLINE vreg vreg_load_step(dtype t, const uint8_t *row, int64_t i) { return step_load(t, row, i); }

#else

enum { STEP = LANES };

INLINE v16 step_load(dtype t, const uint8_t *row, int64_t i) { return v16_load_as(t, row, i); }
INLINE v16 step_load_part(dtype t, const uint8_t *row, int64_t i, int n) { return v16_load_as_part(t, row, i, n); }
INLINE v16 step_dot(v16 w, v16 x, v16 sum) { return v16_fma(w, x, sum); }
INLINE vreg vreg_dot(vreg w, vreg x, vreg sum) { return vreg_fma(w, x, sum); }

/* The part of a step that one register holds: VREG_LANES elements from i on. */
INLINE vreg vreg_load_step(dtype t, const uint8_t *row, int64_t i)
{
    if (t == DTYPE_F16) return vreg_load_f16(row + 2 * i);
    if (t == DTYPE_BF16) return vreg_load_bf16(row + 2 * i);
    return vreg_load((const float *)(const void *)(row + 4 * i));
}

#endif
