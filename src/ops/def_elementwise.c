/* def_elementwise.c - references of MUL, ADD, SCALE, SOFTCAP, CLAMP. The second operand of MUL and ADD is an
 * activation of the same shape, or a vector (weight or constant) over the last axis; of MUL also one number for each
 * row. */
#include "ops/run.h"

#include "base/fmath.h"

/* `out` is called for every element i of this worker's share, y[i] = x[i] `how` b, b taken from a vector when there is
 * one. */
#define PAIRWISE(how)                                                                                                  \
    const float *x = arg_at(r, o->in[0]), *b = arg_at(r, o->in[1]);                                                    \
    float *y = arg_at(r, o->out);                                                                                      \
    int64_t dim = arg_dim(r, o->out), from, to;                                                                        \
    bool vector = arg_info(r, o->in[1])->kind != TENSOR_ACT, row = !vector && arg_dim(r, o->in[1]) < dim;              \
    run_share(arg_rows(r, o->out) * dim, LANES, worker, workers, &from, &to);                                          \
    for (int64_t i = from; i < to; i++) y[i] = x[i] how b[vector ? i % dim : row ? i / dim : i]

GPU_CODE void def_mul(const run *r, const op *o, int worker, int workers) { PAIRWISE(*); }
GPU_CODE void def_add(const run *r, const op *o, int worker, int workers) { PAIRWISE(+); }

GPU_CODE void def_scale(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out);
    int64_t from, to;
    run_share(arg_rows(r, o->out) * arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) y[i] = x[i] * o->u.scale.factor;
}

GPU_CODE void def_softcap(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), cap = o->u.softcap.cap;
    float *y = arg_at(r, o->out);
    int64_t from, to;
    run_share(arg_rows(r, o->out) * arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) y[i] = cap * fm_tanh(x[i] / cap);
}

GPU_CODE void def_clamp(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), max = o->u.clamp.limit, min = o->u.clamp.above ? -INFINITY : -max;
    float *y = arg_at(r, o->out);
    int64_t from, to;
    run_share(arg_rows(r, o->out) * arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) y[i] = x[i] > max ? max : x[i] < min ? min : x[i];
}
