/* v_moe.h - SCATTER on sixteen lanes, and ROUTE compiled for this instruction set; definitions: def_moe.c,
 * route_rows.h. */
#pragma once
#include "ops/expert_rows.h"
#include "ops/route_rows.h"
#include "cpu/simd/v16.h"

static void v_route(const run *r, const op *o, int worker, int workers) { route_rows(r, o, worker, workers); }

static void v_scatter(const run *r, const op *o, int worker, int workers)
{
    const float *x = arg_at(r, o->in[0]), *route = arg_at(r, o->in[2]);
    const int32_t *table = dispatch_at(r, o->in[1]);
    float *y = arg_at(r, o->out);
    int64_t dim = arg_dim(r, o->out), used = r->p->n_used, from, to;
    run_share(arg_rows(r, o->out), 1, worker, workers, &from, &to);
    for (int64_t t = from; t < to; t++)
        for (int64_t i = 0; i < dim; i += LANES) {
            int n = dim - i < LANES ? (int)(dim - i) : LANES;
            v16 sum = v16_zero();
            for (int64_t k = 0; k < used; k++) {
                const int32_t slot = dispatch_slot(table, t * used + k);
                if (slot < 0) continue;
                const v16 row = v16_load_part(x + slot * dim + i, n);
                sum = v16_fma(v16_all(route ? route[t * 2 * used + used + k] : 1), row, sum);
            }
            v16_store_part(y + t * dim + i, sum, n);
        }
}
