/* v_conv.h - CONV on sixteen columns at a time; definition: cpu_conv.c. */
#pragma once
#include "cpu/cpu_conv.h"
#include "cpu/simd/v16.h"

static void v_conv(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    const float *bias = arg_at(r, o->in[2]);
    int64_t from, to;
    cpu_share(arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int32_t k = 0; k < r->st->n_seq; k++) {
        const conv_seq s = conv_seq_of(r, o, k);
        for (int64_t i = 0; i < s.n; i++)
            for (int64_t c = from; c < to; c += LANES) {
                int n = to - c < LANES ? (int)(to - c) : LANES;
                v16 sum = bias ? v16_load_part(bias + c, n) : v16_zero();
                for (int64_t t = 0; t <= s.past; t++) {
                    const float *x = conv_row(&s, i - s.past + t);
                    v16 by = v16_load_as_part(DTYPE_F32, w->data + (uint64_t)t * w->stride, c, n);
                    sum = v16_fma(by, x ? v16_load_part(x + c, n) : v16_zero(), sum);
                }
                v16_store_part(s.y + i * s.dim + c, sum, n);
            }
        conv_keep(&s, from, to);
    }
}
