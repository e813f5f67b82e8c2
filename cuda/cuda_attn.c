/* cuda_attn.c - ATTN by a kernel of attn.cuh: its parameters, and the blocks that a step takes. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_state.h"

enum { SHARED_MAX = 40 << 10 }; /* bytes of dynamic shared memory that every device gives without being asked */

int cuda_attn_start(cuda_device *d, const cuda_segment *s, const step *st, const op *o, bool *done, err *e)
{
    const program *p = d->p;
    const kv_store *kv = &d->kv[o->state];
    const bool buckets = o->u.attn.bias == BIAS_BUCKETS;
    attn_args a = {.st = cuda_step_at(s),
                   .q = cuda_at(d, s, o->in[ATTN_Q]),
                   .bias = cuda_at(d, s, o->in[ATTN_BIAS]),
                   .sinks = cuda_at(d, s, o->in[ATTN_SINKS]),
                   .table = cuda_at(d, s, o->in[ATTN_TABLE]),
                   .out = cuda_at(d, s, o->out),
                   .kv = *kv,
                   .o = *o,
                   .group = p->states[o->state].group,
                   .axis = p->tensors[o->out].axis,
                   .key_axis = p->states[o->state].axis,
                   .reach = buckets ? (int)(tensor_count(&p->tensors[o->in[ATTN_TABLE]]) / 2) : 0,
                   .per_kv = attn_per_kv(o, kv->heads)};
    const cuda_grid grid = {(int64_t)st->n[a.axis] * o->u.attn.heads, 1, ATTN_THREADS,
                            attn_shared_bytes(kv->k_dim, kv->v_dim)};
    *done = grid.shared_bytes <= SHARED_MAX;
    return *done ? cuda_launch_grid(&d->q, d->w->kernels.attn, grid, (void *[]){&a}, e) : OK;
}
