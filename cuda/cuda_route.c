/* cuda_route.c - see cuda_route.h (kernel: route.cuh). Many rows are routed by as many blocks as it takes, and then
 * sorted by expert by one block. */
#include "cuda/cuda_route.h"
#include "cuda/cuda_args.h"

enum { SHARED = 32 << 10 }; /* bytes of dynamic shared memory of a block at most */

uint32_t cuda_route_length(const segment *s, uint32_t first)
{
    const program *p = s->p;
    const op *o = &p->ops[first], *next = o + 1;
    if (o->kind == OP_DISPATCH) return 1;
    if (o->kind != OP_ROUTE) return 0;
    return first + 1 < p->n_op && next->kind == OP_DISPATCH && next->in[0] == o->out ? 2 : 1;
}

/* The parameters of `route`, which may be NULL, and of `dispatch`, likewise. */
static route_args args_of(const cuda_device *d, const cuda_segment *s, const op *route, const op *dispatch)
{
    const program *p = d->p;
    const ref scores = route ? route->out : dispatch->in[0];
    route_args a = {.live = cuda_live(s, p->tensors[scores].axis), .y = cuda_at(d, s, scores), .routes = route != NULL};
    if (route) {
        a.o = *route;
        a.x = cuda_at(d, s, route->in[0]);
        a.bias = cuda_at(d, s, route->in[1]);
        a.scale = cuda_at(d, s, route->in[2]);
        a.n = (int32_t)tensor_count(&p->tensors[route->in[0]]);
    }
    if (dispatch) {
        a.o.u.route.used = dispatch->u.dispatch.used;
        a.table = cuda_at(d, s, dispatch->out);
        a.experts = dispatch->u.dispatch.experts;
        a.first = dispatch->u.dispatch.first;
    }
    return a;
}

int cuda_route_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, err *e)
{
    const op *o = &d->p->ops[of->first];
    const op *route = o->kind == OP_ROUTE ? o : NULL, *dispatch = !route ? o : of->n > 1 ? o + 1 : NULL;
    int rc = OK;
    if (route) {
        route_args a = args_of(d, s, route, NULL);
        a.space = (int32_t)((9 * (int64_t)a.n + 5 * (int64_t)a.o.u.route.groups + 15) / 16 * 16);
        const int64_t fit = SHARED / a.space, most = ROUTE_THREADS / 32, rows = st->n[d->p->tensors[route->out].axis];
        const int64_t warps = fit < most ? fit : most, blocks = cuda_blocks(rows, warps);
        if (dispatch && blocks == 1) {
            const route_args both = args_of(d, s, route, dispatch);
            a.table = both.table, a.experts = both.experts, a.first = both.first;
            dispatch = NULL;
        }
        const cuda_grid grid = {blocks, 1, (int)warps * 32, (uint64_t)(warps * a.space)};
        rc = cuda_launch_fast(&d->q, d->w->kernels.route, grid, (void *[]){&a}, e);
    }
    if (rc || !dispatch) return rc;
    route_args a = args_of(d, s, NULL, dispatch);
    const cuda_grid grid = {1, 1, ROUTE_THREADS, 0};
    return cuda_launch_fast(&d->q, d->w->kernels.route, grid, (void *[]){&a}, e);
}
