/* def_conv.c - reference of CONV: a causal convolution of each column with a few weights of its own (depthwise; as in
 * Mamba, arXiv 2312.00752, and LFM2, arXiv 2511.23404).
 *
 * A result is one chain of fused multiply-adds that begins with the bias, or zero, and goes over the taps from the
 * oldest row to the row itself; rows before position 0 are zeros that count like others. So it does not depend on how
 * a sequence is divided into steps. Workers share columns. */
#include "ops/conv_rows.h"

#include <math.h>

GPU_CODE static void columns(const conv_seq *s, const held_weight *w, const float *bias, int64_t i, int64_t from,
                             int64_t to)
{
    for (int64_t c = from; c < to; c++) {
        float sum = bias ? bias[c] : 0, by;
        for (int64_t t = 0; t <= s->past; t++) {
            const float *x = conv_row(s, i - s->past + t);
            memcpy(&by, w->data + (uint64_t)t * w->stride + (uint64_t)c * sizeof by, sizeof by);
            sum = fmaf(by, x ? x[c] : 0, sum);
        }
        s->y[i * s->dim + c] = sum;
    }
}

GPU_CODE void def_conv(const run *r, const op *o, int worker, int workers)
{
    conv_rows(r, o, worker, workers, columns);
}
