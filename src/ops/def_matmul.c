/* def_matmul.c - reference of MATMUL: y[r][n] = sum over k of x[r][k] * w[n][k] [+ bias[n]].
 *
 * Part (b) of the arithmetic contract: 16 partial sums over k mod 16, each a chain of fused multiply-adds with k
 * ascending and padded with zeros to a multiple of 16, then folded 8, 4, 2, 1. A weight row is decoded once, whatever
 * the number of rows. */
#include "ops/run.h"

#include <math.h>

GPU_CODE float def_dot(const float *w, const float *x, int64_t k)
{
    float a[LANES] = {0};
    for (int64_t i = 0; i < (k + LANES - 1) / LANES * LANES; i++)
        a[i % LANES] = fmaf(i < k ? w[i] : 0, i < k ? x[i] : 0, a[i % LANES]);
    return lanes_fold(a);
}

GPU_CODE void def_matmul(const run *r, const op *o, int worker, int workers)
{
    const held_weight *w = arg_weight(r, o->in[1]);
    if (arg_info(r, o->in[0])->block) {
        def_qmatmul(r, o, worker, workers);
        return;
    }
    const float *x = arg_at(r, o->in[0]), *bias = arg_at(r, o->in[2]);
    float *y = arg_at(r, o->out), *row = arg_scratch(r, worker);
    int64_t rows = arg_rows(r, o->out), from, to;
    run_share(w->rows, 1, worker, workers, &from, &to);
    for (int64_t n = from; n < to; n++) {
        held_row(w, n, row);
        for (int64_t i = 0; i < rows; i++) {
            float s = def_dot(row, x + i * w->cols, w->cols);
            y[i * w->rows + n] = bias ? s + bias[n] : s;
        }
    }
}
