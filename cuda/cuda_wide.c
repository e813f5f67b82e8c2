/* cuda_wide.c - products of many rows by cuBLAS, where --exact off allows it: sums are taken in another order than by
 * the definitions, and may depend on the number of rows. Float matrices are multiplied where they lie; packed ones
 * become bfloat16 before, a strip of outputs at a time, small enough to stay in the cache of the device (L2) until it
 * is multiplied.
 *
 * Bound: the peak of its tensor instructions; a strip is written and read once for all rows of a step. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_state.h"
#include "tensor/act_q8.h"

#include <stdio.h>
#include <string.h>

/* Fewer rows go the exact way, which reads weights once and is bound by them. */
enum { ROWS_LEAST = 64 };
enum { BAND = 2048 }; /* rows of activations at a time */
enum { STRIP_BYTES = 24 << 20, WORKSPACE_BYTES = 32 << 20 };
enum { COLS_MOST = STRIP_BYTES / 2 / PANEL_ROWS };

/* The type in which a matrix is multiplied; -1: it is not. */
static int type_of(const held_weight *w)
{
    if (w->packed) return BLAS_BF16;
    return w->type == DTYPE_F32 ? BLAS_F32 : w->type == DTYPE_F16 ? BLAS_F16 : w->type == DTYPE_BF16 ? BLAS_BF16 : -1;
}

static int64_t widest(const program *p)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const int64_t cols = p->ops[i].kind == OP_MATMUL ? tensor_count(&p->tensors[p->ops[i].in[0]]) : 0;
        if (cols > most) most = cols;
    }
    return most;
}

/* Activations, their scales, and a strip. */
static uint64_t rows_bytes(const program *p) { return cuda_aligned((uint64_t)widest(p) * BAND * sizeof(uint16_t)); }
static uint64_t scale_bytes(void) { return cuda_aligned(BAND * sizeof(float)); }

/* Whether most bytes of the matrices are floats. */
static bool has_floats(const cuda_weights *w)
{
    double floats = 0, packed = 0;
    for (uint32_t i = 0; i < w->p->n_weight; i++) {
        const weight *of = &w->p->weights[i];
        const dtype type = weight_held_type(of);
        if (!w->wanted[i] || of->vector) continue;
        *(panel_format_of(type) ? &packed : &floats) += (double)of->rows * (double)of->cols;
    }
    return floats > packed;
}

int cuda_wide_load(cuda_weights *w, err *e)
{
    static const char *const kinds[PANEL_KINDS] = {
#define X(name, ...) "cuda_wide_" #name,
        PANEL_KIND_LIST(X)
#undef X
    };
    int rc = cuda_load_image(&w->q, "wide", &w->wide, e);
#define X(name)                                                                                                        \
    if (!rc) rc = cuda_find(&w->q, w->wide, "cuda_" #name, &w->kernels.name, e);
    CUDA_WIDE_LIST(X)
#undef X
    for (int k = 0; k < PANEL_KINDS && !rc; k++) rc = cuda_find(&w->q, w->wide, kinds[k], &w->kernels.wide[k], e);
    return rc;
}

int cuda_wide_strip(cuda_queue *q, const cuda_kernels *k, const held_weight *w, int64_t row0, int64_t rows,
                    cu_address to, err *e)
{
    const panel_format *f = panel_format_of(w->type);
    wide_weights a = {.w = w->data,
                      .to = (uint16_t *)(uintptr_t)to,
                      .stride = w->stride,
                      .cols = w->cols,
                      .row0 = row0,
                      .rows = rows,
                      .type = (int32_t)w->type,
                      .factor = f->factor};
    const int64_t warps = cuda_blocks(rows, PANEL_ROWS) * cuda_blocks(w->cols, 2 * PANEL_K);
    return cuda_launch(q, k->wide[f->kind], 32 * warps, WIDE_THREADS, (void *[]){&a}, e);
}

int cuda_wide_find(cuda_weights *w, const weight_options *o, err *e)
{
    const cuda_options *own = o->own;
    blas_handle *h = NULL;
    err why = {0};
    int version = 0;
    if (!o->inexact) {
        if (has_floats(w))
            snprintf(w->note, sizeof w->note,
                     "the matrices are floats: with --exact off cuBLAS would read prompts some ten times as fast");
        return OK;
    }
    w->blas = blas_open(own ? own->cublas : NULL, &why);
    int rc = w->blas ? blas_handle_open(w->blas, &h, w->q.stream, 0, 0, &version, &why) : ERR_UNAVAILABLE;
    if (h) w->blas->cublasDestroy_v2(h);
    if (rc) w->blas = NULL;
    if (rc && own && own->cublas) return err_copy(e, &why);
    if (rc) snprintf(w->note, sizeof w->note, "--exact off: %.160s; results stay exact", why.msg);
    if (rc) return OK;
    snprintf(w->isa + strlen(w->isa), sizeof w->isa - strlen(w->isa), " cublas-%d.%d", version / 10000,
             version / 100 % 100);
    return cuda_wide_load(w, e);
}

uint64_t cuda_wide_bytes(const cuda_weights *w, const program *p)
{
    return w->blas ? rows_bytes(p) + scale_bytes() + STRIP_BYTES + WORKSPACE_BYTES : 0;
}

int cuda_wide_open(cuda_device *d, err *e)
{
    int version;
    if (!d->w->blas) return OK;
    int rc = cuda_take(&d->q, cuda_wide_bytes(d->w, d->p), "cuBLAS", &d->wide.memory, e);
    d->wide.x = d->wide.memory + WORKSPACE_BYTES;
    d->wide.scale = d->wide.x + rows_bytes(d->p);
    d->wide.strip = d->wide.scale + scale_bytes();
    return rc ? rc
              : blas_handle_open(d->w->blas, &d->wide.handle, d->q.stream, d->wide.memory, WORKSPACE_BYTES, &version,
                                 e);
}

void cuda_wide_close(cuda_device *d)
{
    if (d->wide.handle && !cuda_hangs(d->q.device)) d->w->blas->cublasDestroy_v2(d->wide.handle);
    d->wide.handle = NULL;
    cuda_give(&d->q, &d->wide.memory, cuda_wide_bytes(d->w, d->p));
}

/* y[rows][w->rows] = x * transpose(w) + bias; x: int8 rows by `block`, or floats (0). */
typedef struct wide_product {
    const held_weight *w;
    cu_address x, y;
    const float *bias;
    int64_t rows;
    int block;
} wide_product;

/* All outputs of a band of rows. */
static int multiply_strips(cuda_device *d, const held_weight *w, const blas_product *whole, err *e)
{
    const int64_t strip = STRIP_BYTES / (int64_t)sizeof(uint16_t) / w->cols / PANEL_ROWS * PANEL_ROWS;
    int rc = OK;
    if (!w->packed) return blas_multiply(d->w->blas, d->wide.handle, whole, e);
    for (int64_t n = 0; n < whole->n && !rc; n += strip) {
        const int64_t rows = whole->n - n < strip ? whole->n - n : strip;
        blas_product p = *whole;
        p.w = d->wide.strip;
        p.n = rows;
        p.y += (uint64_t)n * sizeof(float);
        rc = cuda_wide_strip(&d->q, &d->w->kernels, w, n, rows, d->wide.strip, e);
        if (!rc) rc = blas_multiply(d->w->blas, d->wide.handle, &p, e);
    }
    return rc;
}

/* Rows from `row` on, BAND at most. */
static int multiply_band(cuda_device *d, const wide_product *a, int64_t row, err *e)
{
    const held_weight *w = a->w;
    const int64_t rows = a->rows - row < BAND ? a->rows - row : BAND;
    const blas_type type = (blas_type)type_of(w);
    const uint64_t row_bytes = a->block ? act_row_bytes(w->cols, a->block) : (uint64_t)w->cols * sizeof(float);
    const uint64_t x = a->x + (uint64_t)row * row_bytes, y = a->y + (uint64_t)(row * w->rows) * sizeof(float);
    const bool half = type == BLAS_F16, same = type == BLAS_F32;
    wide_rows from = {.x = (const void *)(uintptr_t)x,
                      .to = (uint16_t *)(uintptr_t)d->wide.x,
                      .scale = (float *)(uintptr_t)d->wide.scale,
                      .cols = w->cols,
                      .block = a->block,
                      .half = half};
    wide_end end = {
        .y = (float *)(uintptr_t)y, .scale = half ? from.scale : NULL, .bias = a->bias, .rows = rows, .n = w->rows};
    const blas_product p = {.x = same ? x : d->wide.x,
                            .w = (uint64_t)(uintptr_t)w->data,
                            .y = y,
                            .rows = rows,
                            .n = w->rows,
                            .k = w->cols,
                            .ldy = w->rows,
                            .type = type};
    const cuda_grid grid = {rows, 1, WIDE_THREADS, 0};
    int rc = same ? OK : cuda_launch_grid(&d->q, d->w->kernels.wide_rows, grid, (void *[]){&from}, e);
    if (!rc) rc = multiply_strips(d, w, &p, e);
    d->q.follows = false; /* what cuBLAS started last is not known */
    if (rc || !(end.scale || end.bias)) return rc;
    return cuda_launch(&d->q, d->w->kernels.wide_end, rows * w->rows, WIDE_THREADS, (void *[]){&end}, e);
}

void cuda_wide_prepare(cuda_device *d, const step *st)
{
    int32_t most = 0;
    for (int i = 0; i < AXIS_COUNT; i++) most = st->n[i] > most ? st->n[i] : most;
    d->wide.due = d->wide.handle && most >= ROWS_LEAST;
}

static wide_product product_of(const cuda_device *d, const cuda_segment *s, const step *st, const op *o)
{
    return (wide_product){.w = cuda_matrix(d, o),
                          .x = (cu_address)(uintptr_t)cuda_at(d, s, o->in[0]),
                          .y = (cu_address)(uintptr_t)cuda_at(d, s, o->out),
                          .bias = cuda_at(d, s, o->in[2]),
                          .rows = st->n[d->p->tensors[o->out].axis],
                          .block = d->p->tensors[o->in[0]].block};
}

static bool is_wide(const cuda_device *d, const step *st, const op *o)
{
    if (o->kind != OP_MATMUL || st->n[d->p->tensors[o->out].axis] < ROWS_LEAST) return false;
    const held_weight *w = cuda_matrix(d, o);
    return type_of(w) >= 0 && w->cols <= COLS_MOST;
}

int cuda_wide_start(cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n, bool *done,
                    err *e)
{
    int rc = OK;
    *done = d->wide.due;
    for (int i = 0; i < n; i++) *done = *done && is_wide(d, st, &d->p->ops[ops[i]]);
    for (int i = 0; i < n && *done && !rc; i++) {
        const wide_product a = product_of(d, s, st, &d->p->ops[ops[i]]);
        for (int64_t row = 0; row < a.rows && !rc; row += BAND) rc = multiply_band(d, &a, row, e);
    }
    return rc;
}
