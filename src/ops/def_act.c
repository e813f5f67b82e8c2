/* def_act.c - reference of ACT. */
#include "core/act_value.h"
#include "ops/run.h"

GPU_CODE void def_act(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out);
    int64_t from, to;
    run_share(arg_rows(r, o->out) * arg_dim(r, o->out), LANES, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) y[i] = act_value(o->u.act.fn, x[i]);
}
