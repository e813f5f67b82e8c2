/* def_columns.c - reference of COLUMNS: some columns of each row, one after another or in any order. */
#include "ops/run.h"

#include <string.h>

GPU_CODE void def_columns(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]) + o->u.columns.from, *order = o->in[1] ? arg_at(r, o->in[1]) : NULL;
    float *y = arg_at(r, o->out);
    int64_t all = arg_dim(r, o->in[0]), dim = arg_dim(r, o->out), from, to;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to && !order; i++) memcpy(y + i * dim, x + i * all, (size_t)dim * sizeof *y);
    for (int64_t i = from; i < to && order; i++)
        for (int64_t k = 0; k < dim; k++) y[i * dim + k] = x[i * all + (int64_t)order[k]];
}
