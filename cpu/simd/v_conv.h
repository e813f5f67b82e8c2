/* v_conv.h - CONV on sixteen columns at a time; definition: def_conv.c. */
#pragma once
#include "ops/conv_rows.h"
#include "cpu/simd/v16.h"

INLINE void v_conv_columns(const conv_seq *s, const held_weight *w, const float *bias, int64_t i, int64_t from,
                           int64_t to)
{
    for (int64_t c = from; c < to; c += LANES) {
        int n = to - c < LANES ? (int)(to - c) : LANES;
        v16 sum = bias ? v16_load_part(bias + c, n) : v16_zero();
        for (int64_t t = 0; t <= s->past; t++) {
            const float *x = conv_row(s, i - s->past + t);
            v16 by = v16_load_as_part(DTYPE_F32, w->data + (uint64_t)t * w->stride, c, n);
            sum = v16_fma(by, x ? v16_load_part(x + c, n) : v16_zero(), sum);
        }
        v16_store_part(s->y + i * s->dim + c, sum, n);
    }
}

static void v_conv(const run *r, const op *o, int worker, int workers)
{
    conv_rows(r, o, worker, workers, v_conv_columns);
}
