/* v_rope.h - ROPE on sixteen lanes; definition: ops/rope_heads.h, which does pairs beyond a multiple of 16. */
#pragma once
#include "ops/rope_heads.h"
#include "cpu/simd/v16.h"

INLINE void rope_turn(v16 *a, v16 *b, v16 c, v16 s)
{
    v16 x = *a, y = *b;
    *a = v16_fma(x, c, v16_neg(v16_mul(y, s)));
    *b = v16_fma(y, c, v16_mul(x, s));
}

INLINE int64_t rope_lanes(const float *x, float *y, const float *c, const float *s, int64_t half, bool halves)
{
    int64_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        const float *p = halves ? x + i : x + 2 * i;
        float *q = halves ? y + i : y + 2 * i;
        int64_t next = halves ? half : LANES;
        v16 a = v16_load(p), b = v16_load(p + next);
        if (!halves) v16_unzip(&a, &b);
        rope_turn(&a, &b, v16_load(c + i), v16_load(s + i));
        if (!halves) v16_zip(&a, &b);
        v16_store(q, a);
        v16_store(q + next, b);
    }
    return i;
}

static void v_rope(const run *r, const op *o, int worker, int workers)
{
    rope_heads(r, o, worker, workers, rope_lanes);
}
