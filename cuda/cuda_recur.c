/* cuda_recur.c - see cuda_recur.h. Kernels of RECUR (recur.cuh): those of columns that share a head, where heads are
 * whole warps wide, or of columns by themselves, for each usual number of rows of a state. That of CONV: conv.cuh. */
#include "cuda/cuda_recur.h"
#include "cuda/conv_args.h"
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
    return cuda_launch_fast(&d->q, alone ? of[i].alone : of[i].shared, grid, (void *[]){&a}, e);
}

int cuda_conv_start(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *out = &d->p->tensors[o->out];
    const held_weight *w = cuda_matrix(d, o);
    conv_args a = {
        .s = {.x = cuda_at(d, s, o->in[0]), .y = cuda_at(d, s, o->out), .dim = tensor_count(out), .past = w->rows - 1},
        .st = cuda_step_at(s),
        .slots = d->slots[o->state],
        .w = (const float *)(const void *)w->data,
        .w_row = (int64_t)(w->stride / sizeof(float)),
        .bias = cuda_at(d, s, o->in[2])};
    const cuda_grid grid = {cuda_blocks(a.s.dim, CONV_COLUMNS), cuda_blocks(st->n[out->axis], CONV_ROWS), CONV_COLUMNS,
                            0};
    return cuda_launch_fast(&d->q, d->w->kernels.conv, grid, (void *[]){&a}, e);
}
