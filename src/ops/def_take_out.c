/* def_take_out.c - reference of TAKE_OUT: only rows whose result is wanted go on. */
#include "ops/run.h"

#include <string.h>

GPU_CODE void def_take_out(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), from, to;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) memcpy(y + i * dim, x + r->st->out[i] * dim, (size_t)dim * sizeof *y);
}
