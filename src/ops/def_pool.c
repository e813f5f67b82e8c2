/* def_pool.c - reference of POOL: one row of each sequence that wants a pooled result.
 *
 * The mean is one chain of sums per element, in order of position, divided by the number of rows; a unit of work is
 * LANES elements of a sequence, which the compiler adds side by side. */
#include "ops/run.h"

#include <string.h>

GPU_CODE static void mean_of(const float *x, int64_t rows, int64_t dim, int n, float *y)
{
    float sum[LANES] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int k = 0; k < n; k++) sum[k] += x[i * dim + k];
    for (int k = 0; k < n; k++) y[k] = sum[k] / (float)rows;
}

/* The last of rows [row, end) whose token is another than skip - 1; the first where there is none. */
GPU_CODE static int32_t last_row(const int32_t *token, int32_t row, int32_t end, int32_t skip)
{
    int32_t at = end - 1;
    while (skip && at > row && token[at] == skip - 1) at--;
    return skip && token[at] == skip - 1 ? row : at;
}

GPU_CODE void def_pool(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]);
    const int32_t *first = r->st->tok.seq_row;
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), parts = (dim + LANES - 1) / LANES, from, to;
    run_share(arg_rows(r, o->out) * parts, 1, worker, workers, &from, &to);
    for (int64_t u = from; u < to; u++) {
        int64_t i = u / parts, at = u % parts * LANES, n = dim - at < LANES ? dim - at : LANES;
        int32_t seq = r->st->pool[i], row = first[seq], end = first[seq + 1];
        if (o->u.pool.how == POOL_MEAN) mean_of(x + row * dim + at, end - row, dim, (int)n, y + i * dim + at);
        else {
            const bool first_row = o->u.pool.how == POOL_FIRST;
            const int32_t one = first_row ? row : last_row(r->st->tok.token, row, end, o->u.pool.skip);
            memcpy(y + i * dim + at, x + one * dim + at, (size_t)n * sizeof *y);
        }
    }
}
