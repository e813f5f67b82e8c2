/* cuda_recur.c - see cuda_recur.h (kernels: recur.cuh): those of columns that share a head, where heads are whole warps
 * wide, or of columns by themselves, for each usual number of rows of a state. */
#include "cuda/cuda_recur.h"
#include "cuda/recur_args.h"

enum { SEQUENCES = 64 }; /* of blocks along y at most: each takes every 64th sequence */

int cuda_recur_start(cuda_device *d, const cuda_segment *s, const step *st, const op *o, bool *done, err *e)
{
    const cuda_kernels *k = &d->w->kernels;
    const struct {
        int64_t rows;
        cu_function shared, alone;
    } of[] = {{16, k->recur_16, k->recur_alone_16},
              {32, k->recur_32, k->recur_alone_32},
              {64, k->recur_64, k->recur_alone_64},
              {128, k->recur_128, k->recur_alone_128}};
    enum { KINDS = sizeof of / sizeof *of };
    recur_args a = {.s = recur_shape_of(d->p, o), .st = cuda_step_at(s), .slots = d->slots[o->state]};
    int i = 0;
    while (i < KINDS && of[i].rows != a.s.rows) i++;
    const bool alone = a.s.width % RECUR_COLUMNS != 0;
    *done = i < KINDS && (!alone || a.s.rows <= RECUR_ALONE_ROWS || recur_has_one(&a.s));
    if (!*done) return OK;
    a.s.v = cuda_at(d, s, o->in[0]);
    a.s.keys = cuda_at(d, s, o->in[1]);
    a.s.step = cuda_at(d, s, o->in[2]);
    a.s.rate = cuda_at(d, s, o->in[3]);
    a.s.y = cuda_at(d, s, o->out);
    const int64_t rows = st->n[d->p->tensors[o->out].axis];
    const cuda_grid grid = {cuda_blocks(a.s.dim, RECUR_COLUMNS), rows < SEQUENCES ? rows : SEQUENCES, RECUR_COLUMNS, 0};
    return cuda_launch_grid(&d->q, alone ? of[i].alone : of[i].shared, grid, (void *[]){&a}, e);
}
