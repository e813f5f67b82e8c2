/* conv.cuh - CONV in the bits of ops/def_conv.c: a lane has a column of some rows, neighbours lie side by side. Each
 * result is a chain over few taps, which rows share by the cache. Bound: bytes of rows in and out. */
#pragma once
extern "C" {
#include "cuda/conv_args.h"
}

/* Blocks along x have columns; along y rows, and slots of sequences. */
extern "C" __global__ void __launch_bounds__(CONV_COLUMNS) cuda_conv(const __grid_constant__ conv_args a)
{
    begin_in_turn();
    const int64_t c = (int64_t)blockIdx.x * CONV_COLUMNS + threadIdx.x;
    const int first = (int)blockIdx.y * CONV_ROWS, end = min(first + CONV_ROWS, a.st->n[AXIS_TOK]);
    if (c >= a.s.dim) return;
    for (int row = first; row < end; row++) {
        const int seq = a.st->tok.seq[row];
        const int64_t i = row - a.st->tok.seq_row[seq];
        conv_seq s = a.s;
        conv_seq_at(&s, a.st, &a.slots, seq);
        float sum = a.bias ? a.bias[c] : 0;
        const float *by = a.w + c;
        for (int64_t t = 0; t <= s.past; t++, by += a.w_row) {
            const float *x = conv_row(&s, i - s.past + t);
            sum = fmaf(*by, x ? x[c] : 0, sum);
        }
        s.y[i * s.dim + c] = sum;
    }
    for (int seq = (int)blockIdx.y; seq < a.st->n_seq; seq += (int)gridDim.y) {
        conv_seq s = a.s;
        conv_seq_at(&s, a.st, &a.slots, seq);
        conv_keep(&s, c, c + 1);
    }
}
