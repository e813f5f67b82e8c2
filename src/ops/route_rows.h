/* route_rows.h - the body of ROUTE, compiled for every instruction set. */
#pragma once
#include "core/route_pick.h"
#include "ops/run.h"

static inline void route_rows(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), *bias = arg_at(r, o->in[1]), *scale = arg_at(r, o->in[2]);
    float *y = arg_at(r, o->out);
    int64_t n = arg_dim(r, o->in[0]), width = arg_dim(r, o->out), from, to;
    route_row *w = (route_row *)(void *)arg_scratch(r, worker);
    w->n = (int32_t)n;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) {
        w->logits = x + i * n;
        route_pick(o, w, bias, scale, y + i * width);
    }
}
