/* def_norm.c - reference of NORM: RMS norm (Zhang & Sennrich 2019, arXiv 1910.07467), layer norm (Ba et al. 2016,
 * arXiv 1607.06450), division by the length; the size of a row for each of its elements
 * (AltUp, arXiv 2301.13310), and by how much elements are above a bound that their spread sets (Gemma 3n).
 *
 * Groups of `width` elements of a row, each reduced in 16 lanes. The variance is a second pass over the differences.
 * One weight vector may span several groups: element i of a row takes weight i mod its length. */
#include "ops/run.h"

#include <math.h>

GPU_CODE static void norm_group(const op *o, const float *x, float *y, const float *gain, const float *bias)
{
    int width = o->u.norm.width;
    float a[LANES] = {0}, mean = 0;
    const int kind = o->u.norm.kind;
    if (kind == NORM_LAYER || kind == NORM_ABOVE) {
        for (int i = 0; i < width; i++) a[i % LANES] += x[i];
        mean = lanes_fold(a) / (float)width;
        for (int i = 0; i < LANES; i++) a[i] = 0;
    }
    for (int i = 0; i < width; i++) {
        float d = x[i] - mean;
        a[i % LANES] = fmaf(d, d, a[i % LANES]);
    }
    float sum = lanes_fold(a), inv = 1.0f / sqrtf(sum / (float)width + o->u.norm.eps);
    if (kind == NORM_L2) inv = 1.0f / fmaxf(sqrtf(sum), o->u.norm.eps);
    if (kind == NORM_SIZE) inv = sqrtf(sum / (float)width);
    if (kind == NORM_ABOVE) mean = mean + sqrtf(sum / (float)width) * o->u.norm.eps, inv = 1;
    for (int i = 0; i < width; i++) {
        float v = kind == NORM_SIZE ? inv : (x[i] - mean) * inv;
        if (gain) v = v * gain[i];
        if (bias) v = v + bias[i];
        y[i] = v;
    }
}

GPU_CODE void def_norm(const run *r, const op *o, int worker, int workers)
{
    int64_t dim = arg_dim(r, o->out), width = o->u.norm.width, groups = dim / width, from, to;
    const float *x = arg_at(r, o->in[0]), *gain = arg_at(r, o->in[1]), *bias = arg_at(r, o->in[2]);
    int64_t gain_len = gain ? arg_dim(r, o->in[1]) : width, bias_len = bias ? arg_dim(r, o->in[2]) : width;
    float *y = arg_at(r, o->out);
    run_share(arg_rows(r, o->out) * groups, 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int64_t at = i % groups * width;
        norm_group(o, x + i * width, y + i * width, gain ? gain + at % gain_len : NULL,
                   bias ? bias + at % bias_len : NULL);
    }
}
