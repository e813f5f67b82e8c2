/* def_moe.c - references of DISPATCH, GATHER, SCATTER: token rows sorted by expert, there and back.
 *
 * The sort counts and keeps the order of token rows, so each expert's rows are adjacent and its weights are read once
 * a step. One worker does it: it is a few thousand integers. A sum over experts is one chain of fused multiply-adds
 * that starts with the best expert, so it does not depend on the order of rows. */
#include "ops/expert_rows.h"

#include <math.h>
#include <string.h>

/* Number of an expert here; of another one the number of those. */
GPU_CODE static int32_t place_of(const op *o, float id)
{
    const int32_t at = (int32_t)id - o->u.dispatch.first;
    return at >= 0 && at < o->u.dispatch.experts ? at : o->u.dispatch.experts;
}

GPU_CODE void def_dispatch(const run *r, const op *o, int worker, int workers)
{
    const float *route = arg_at(r, o->in[0]);
    int32_t *table = (int32_t *)(void *)arg_at(r, o->out), *start = (int32_t *)(void *)arg_scratch(r, worker);
    int32_t used = o->u.dispatch.used, experts = o->u.dispatch.experts;
    int64_t rows = arg_rows(r, o->in[0]);
    (void)workers;
    if (worker) return;
    for (int32_t e = 0; e < experts + 2; e++) start[e] = 0;
    for (int64_t t = 0; t < rows; t++)
        for (int32_t k = 0; k < used; k++) start[place_of(o, route[t * 2 * used + k]) + 1]++;
    for (int32_t e = 0; e <= experts; e++) start[e + 1] += start[e];
    for (int64_t t = 0; t < rows; t++)
        for (int32_t k = 0; k < used; k++) {
            int32_t expert = place_of(o, route[t * 2 * used + k]), slot = start[expert]++;
            table[(int64_t)slot * DISPATCH_COLS + DISPATCH_ROW] = (int32_t)t;
            table[(int64_t)slot * DISPATCH_COLS + DISPATCH_EXPERT] = expert < experts ? expert : -1;
            table[(t * used + k) * DISPATCH_COLS + DISPATCH_SLOT] = slot;
        }
}

GPU_CODE void def_gather(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), *route = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[1]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), used = route ? arg_dim(r, o->in[2]) / 2 : 0, from, to;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int32_t t = table[i * DISPATCH_COLS + DISPATCH_ROW];
        memcpy(y + i * dim, x + t * dim, (size_t)dim * sizeof *y);
        if (!route) continue;
        int64_t at = 0; /* its place among the experts of t */
        while (at < used - 1 && table[(t * used + at) * DISPATCH_COLS + DISPATCH_SLOT] != i) at++;
        const float w = route[t * 2 * used + used + at];
        for (int64_t k = 0; k < dim; k++) y[i * dim + k] *= w;
    }
}

GPU_CODE void def_scatter(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), *route = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[1]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), used = r->p->n_used, from, to;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t t = from; t < to; t++)
        for (int64_t i = 0; i < dim; i++) {
            float sum = 0;
            for (int64_t k = 0; k < used; k++) {
                const int32_t slot = dispatch_slot(table, t * used + k);
                if (slot >= 0) sum = fmaf(route ? route[t * 2 * used + used + k] : 1, x[slot * dim + i], sum);
            }
            y[t * dim + i] = sum;
        }
}
