/* def_join.c - reference of JOIN: heads of two tensors side by side. */
#include "ops/run.h"

#include <string.h>

GPU_CODE void def_join(const run *r, const op *o, int worker, int workers)
{
    const float *x[] = {arg_at(r, o->in[0]), arg_at(r, o->in[1])};
    float *y = arg_at(r, o->out);
    int64_t heads = o->u.join.heads, part[] = {arg_dim(r, o->in[0]) / heads, arg_dim(r, o->in[1]) / heads}, from, to;
    run_share(arg_rows(r, o->out) * heads, 1, worker, workers, &from, &to);
    for (int64_t i = from; i < to; i++)
        for (int k = 0; k < 2; k++)
            memcpy(y + i * (part[0] + part[1]) + k * part[0], x[k] + i * part[k], (size_t)part[k] * sizeof *y);
}
