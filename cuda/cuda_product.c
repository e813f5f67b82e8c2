/* cuda_product.c - MATMUL, MATMUL_HEADS, MATMUL_EXP on the device: the choice of a kernel by the type of the weights
 * and the number of rows, and its parameters. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_state.h"
#include "tensor/act_q8.h"

#include <stdio.h>

static const dtype float_types[CUDA_FLOATS] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

int cuda_product_load(cuda_weights *w, err *e)
{
    static const char *const kinds[PANEL_KINDS] = {
#define X(name, ...) #name,
        PANEL_KIND_LIST(X)
#undef X
    };
    static const int rows[CUDA_FAST_WAYS] = {1, CUDA_FAST_ROWS};
    char name[64];
    int rc = OK;
    for (int way = 0; way < CUDA_FAST_WAYS; way++) {
        for (int k = 0; k < PANEL_KINDS && !rc; k++) {
            snprintf(name, sizeof name, "cuda_qmat_%s_%d", kinds[k], rows[way]);
            rc = cuda_find(&w->q, w->fast, name, &w->kernels.qmat[k][way], e);
        }
        for (int k = 0; k < CUDA_FLOATS && !rc; k++) {
            snprintf(name, sizeof name, "cuda_fmat_%s_%d", dtype_info[float_types[k]].name, rows[way]);
            rc = cuda_find(&w->q, w->fast, name, &w->kernels.fmat[k][way], e);
        }
    }
    return rc;
}

static product_args product_of(const cuda_device *d, const cuda_segment *s, const step *st, const op *o)
{
    const program *p = d->p;
    const held_weight *w = &d->w->helds[p->tensors[o->in[1]].weight];
    product_args a = {.bias = cuda_at(d, s, o->in[2]),
                      .y = cuda_at(d, s, o->out),
                      .n = tensor_count(&p->tensors[o->out]),
                      .cols = w->cols,
                      .x_cols = tensor_count(&p->tensors[o->in[0]]),
                      .head_rows = INT64_MAX,
                      .live = cuda_live(s, p->tensors[o->out].axis),
                      .rows = st->n[p->tensors[o->out].axis]};
    if (o->kind == OP_MATMUL_HEADS) a.head_rows = w->rows / (a.x_cols / w->cols);
    if (o->kind == OP_MATMUL_EXP) a.table = cuda_at(d, s, o->in[3]);
    return a;
}

/* Rows sorted by expert go one by one: a block of threads has one matrix. */
static int way_of(const product_args *a) { return a->rows > 1 && !a->table; }

static cuda_grid product_grid(const product_args *a, int64_t outputs, int threads)
{
    return (cuda_grid){cuda_blocks(a->rows, way_of(a) ? CUDA_FAST_ROWS : 1), cuda_blocks(a->n, outputs), threads, 0};
}

static int start_packed(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const held_weight *w = &d->w->helds[d->p->tensors[o->in[1]].weight];
    const panel_format *f = panel_format_of(w->type);
    qmat_args a = {.of = product_of(d, s, st, o),
                   .w = w->data,
                   .x = cuda_at(d, s, o->in[0]),
                   .w_stride = w->stride,
                   .type = (int32_t)w->type,
                   .factor = f->factor};
    a.x_stride = act_row_bytes(a.of.x_cols, d->p->tensors[o->in[0]].block);
    return cuda_launch_grid(&d->q, d->w->kernels.qmat[f->kind][way_of(&a.of)],
                            product_grid(&a.of, PANEL_ROWS, QMAT_THREADS), (void *[]){&a}, e);
}

/* Place in float_types of the type of a matrix; CUDA_FLOATS: packed, or another type. */
static int float_type_of(const cuda_device *d, const op *o)
{
    const held_weight *w = &d->w->helds[d->p->tensors[o->in[1]].weight];
    int k = 0;
    while (k < CUDA_FLOATS && (w->packed || float_types[k] != w->type)) k++;
    return k;
}

static int start_floats(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const held_weight *w = &d->w->helds[d->p->tensors[o->in[1]].weight];
    fmat_args a = {.of = product_of(d, s, st, o), .w = w->data, .x = cuda_at(d, s, o->in[0])};
    return cuda_launch_grid(&d->q, d->w->kernels.fmat[float_type_of(d, o)][way_of(&a.of)],
                            product_grid(&a.of, FMAT_THREADS / LANES, FMAT_THREADS), (void *[]){&a}, e);
}

int cuda_product_start(cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n, bool *done,
                       err *e)
{
    const bool packed = d->p->tensors[d->p->ops[*ops].in[0]].block;
    int rc = cuda_wide_start(d, s, st, ops, n, done, e);
    if (rc || *done) return rc;
    *done = true;
    for (int i = 0; i < n && !packed; i++) *done = *done && float_type_of(d, &d->p->ops[ops[i]]) < CUDA_FLOATS;
    for (int i = 0; i < n && *done && !rc; i++)
        rc = (packed ? start_packed : start_floats)(d, s, st, &d->p->ops[ops[i]], e);
    return rc;
}
