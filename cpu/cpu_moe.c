/* cpu_moe.c - references of DISPATCH, GATHER, SCATTER: token rows sorted by expert, there and back.
 *
 * The sort counts and keeps the order of token rows, so each expert's rows are adjacent and its weights are read once
 * a step. One worker does it: it is a few thousand integers. A sum over experts is one chain of fused multiply-adds
 * that starts with the best expert, so it does not depend on the order of rows. */
#include "cpu/cpu_experts.h"

#include <math.h>
#include <string.h>

void cpu_dispatch(const run *r, const op *o, int worker, int workers)
{
    const float *route = arg_at(r, o->in[0]);
    int32_t *table = (int32_t *)(void *)arg_at(r, o->out), start[EXPERTS_MAX + 1] = {0};
    int32_t used = o->u.dispatch.used, experts = o->u.dispatch.experts;
    int64_t rows = arg_rows(r, o->in[0]);
    (void)workers;
    if (worker) return;
    for (int64_t t = 0; t < rows; t++)
        for (int32_t k = 0; k < used; k++) start[(int32_t)route[t * 2 * used + k] + 1]++;
    for (int32_t e = 0; e < experts; e++) start[e + 1] += start[e];
    for (int64_t t = 0; t < rows; t++)
        for (int32_t k = 0; k < used; k++) {
            int32_t expert = (int32_t)route[t * 2 * used + k], slot = start[expert]++;
            table[(int64_t)slot * DISPATCH_COLS + DISPATCH_ROW] = (int32_t)t;
            table[(int64_t)slot * DISPATCH_COLS + DISPATCH_EXPERT] = expert;
            table[(t * used + k) * DISPATCH_COLS + DISPATCH_SLOT] = slot;
        }
}

void cpu_gather(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), *route = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[1]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), used = route ? arg_dim(r, o->in[2]) / 2 : 0, from, to;
    cpu_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int32_t t = table[i * DISPATCH_COLS + DISPATCH_ROW];
        memcpy(y + i * dim, x + t * dim, (size_t)dim * sizeof *y);
        if (!route) continue;
        float w = route_weight(route + t * 2 * used, used, table[i * DISPATCH_COLS + DISPATCH_EXPERT]);
        for (int64_t k = 0; k < dim; k++) y[i * dim + k] *= w;
    }
}

void cpu_scatter(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), *route = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[1]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), used = r->seg->p->n_used, from, to;
    cpu_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t t = from; t < to; t++)
        for (int64_t i = 0; i < dim; i++) {
            float sum = 0;
            for (int64_t k = 0; k < used; k++) {
                float v = x[table[(t * used + k) * DISPATCH_COLS + DISPATCH_SLOT] * dim + i];
                sum = fmaf(route ? route[t * 2 * used + used + k] : 1, v, sum);
            }
            y[t * dim + i] = sum;
        }
}
