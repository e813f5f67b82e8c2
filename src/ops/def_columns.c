/* def_columns.c - reference of COLUMNS: some columns of each row. */
#include "ops/run.h"

#include <string.h>

GPU_CODE void def_columns(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]) + o->u.columns.from;
    float *y = arg_at(r, o->out);
    int64_t all = arg_dim(r, o->in[0]), dim = arg_dim(r, o->out), from, to;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++) memcpy(y + i * dim, x + i * all, (size_t)dim * sizeof *y);
}
