/* v_norm.h - NORM on sixteen lanes; definition: def_norm.c. Bound by reading x two or three times from the first-level
 * cache. */
#pragma once
#include "cpu/cpu.h"
#include "cpu/simd/v16.h"

#include <math.h>

/* Sum of squares of the differences from mean; lanes beyond the end take no part. */
INLINE float norm_squares(const float *x, int width, v16 mean)
{
    v16 a = v16_zero();
    int i = 0;
    for (; i + LANES <= width; i += LANES) {
        v16 d = v16_sub(v16_load(x + i), mean);
        a = v16_fma(d, d, a);
    }
    if (i < width) {
        v16 d = v16_sub(v16_load_part(x + i, width - i), mean);
        d = v16_pick(m16_range(0, width - i), d, v16_zero());
        a = v16_fma(d, d, a);
    }
    return v16_fold(a);
}

/* Offset and factor of a group. */
typedef struct norm_of {
    v16 mean, inv;
    bool size; /* the result is inv */
} norm_of;
INLINE norm_of norm_measure(const op *o, const float *x, int width)
{
    const int kind = o->u.norm.kind;
    float mean = 0;
    if (kind == NORM_LAYER || kind == NORM_ABOVE) {
        v16 a = v16_zero();
        int i = 0;
        for (; i + LANES <= width; i += LANES) a = v16_add(a, v16_load(x + i));
        if (i < width) a = v16_add(a, v16_load_part(x + i, width - i));
        mean = v16_fold(a) / (float)width;
    }
    float sum = norm_squares(x, width, v16_all(mean)), inv = 1.0f / sqrtf(sum / (float)width + o->u.norm.eps);
    if (kind == NORM_L2) inv = 1.0f / fmaxf(sqrtf(sum), o->u.norm.eps);
    if (kind == NORM_SIZE) inv = sqrtf(sum / (float)width);
    if (kind == NORM_ABOVE) mean = mean + sqrtf(sum / (float)width) * o->u.norm.eps, inv = 1;
    return (norm_of){v16_all(mean), v16_all(inv), kind == NORM_SIZE};
}

/* n <= 16 elements of a group; gain and bias of the first of them, or NULL. */
INLINE v16 norm_sixteen(const float *x, int n, norm_of of, const float *gain, const float *bias)
{
    v16 v = of.inv;
    if (!of.size) v = v16_mul(v16_sub(n == LANES ? v16_load(x) : v16_load_part(x, n), of.mean), of.inv);
    if (gain) v = v16_mul(v, n == LANES ? v16_load(gain) : v16_load_part(gain, n));
    if (bias) v = v16_add(v, n == LANES ? v16_load(bias) : v16_load_part(bias, n));
    return v;
}

static void v_norm(const run *r, const op *o, int worker, int workers)
{
    int width = o->u.norm.width;
    int64_t groups = arg_dim(r, o->out) / width, from, to;
    const float *in = arg_at(r, o->in[0]), *gains = arg_at(r, o->in[1]), *biases = arg_at(r, o->in[2]);
    int64_t gains_len = gains ? arg_dim(r, o->in[1]) : width, biases_len = biases ? arg_dim(r, o->in[2]) : width;
    float *out = arg_at(r, o->out);
    run_share(arg_rows(r, o->out) * groups, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t at = u % groups * width;
        const float *x = in + u * width, *gain = gains ? gains + at % gains_len : NULL,
                    *bias = biases ? biases + at % biases_len : NULL;
        const norm_of of = norm_measure(o, x, width);
        for (int i = 0; i < width; i += LANES) {
            int n = width - i < LANES ? width - i : LANES;
            v16 v = norm_sixteen(x + i, n, of, gain ? gain + i : NULL, bias ? bias + i : NULL);
            v16_store_part(out + u * width + i, v, n);
        }
    }
}
