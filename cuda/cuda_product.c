/* cuda_product.c - MATMUL, MATMUL_HEADS, MATMUL_EXP on the device: the choice of a kernel by the type of the weights
 * and the number of rows, and its parameters. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_codes.h"
#include "cuda/cuda_prefill.h"
#include "cuda/cuda_runs.h"
#include "cuda/cuda_state.h"
#include "tensor/act_q8.h"

#include <stdio.h>

static const dtype float_types[CUDA_FLOATS] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

static const int decode_rows[QDECODE_WAYS] = {1, 8, 32};

/* The maximum of dynamic shared memory of a block: a kernel's static shared memory has 1024 bytes at most. */
static int64_t shared_most(const cuda_kernels *k) { return k->shared_optin - 1024; }
/* The minimum for a block of so many warps: their rings, and one stage of activations. */
static int64_t shared_least(int rows, int warps)
{
    return warps * QDECODE_WARP_BYTES(rows) + QDECODE_STAGE_BYTES(rows);
}

/* Of a block of threads of fmatmul.cuh. */
static int float_shared(int type) { return FMAT_THREADS / 32 * FMAT_RING((int)dtype_info[float_types[type]].bytes); }

int cuda_product_load(cuda_weights *w, err *e)
{
    static const char *const kinds[] = {
#define X(name, ...) #name,
        PANEL_KIND_LIST(X)
#undef X
    };
    static const int rows[CUDA_FAST_WAYS] = {1, CUDA_FAST_ROWS};
    cuda_kernels *to = &w->kernels;
    const cuda_driver *cu = w->q.cu;
    char name[64];
    int rc = cuda_done(&w->q, cu->cuDeviceGetAttribute(&to->processors, CU_PROCESSORS, w->q.device), "asking it", e);
    if (!rc)
        rc = cuda_done(&w->q, cu->cuDeviceGetAttribute(&to->shared_optin, CU_SHARED_OPTIN, w->q.device), "asking it",
                       e);
    for (int k = 0; k < PANEL_KINDS * QDECODE_WAYS && !rc; k++) {
        cu_function *f = &to->qdecode[k / QDECODE_WAYS][k % QDECODE_WAYS];
        snprintf(name, sizeof name, "cuda_qdecode_%s_%d", kinds[k / QDECODE_WAYS], decode_rows[k % QDECODE_WAYS]);
        rc = cuda_find(&w->q, w->fast, name, f, e);
        if (!rc)
            rc = cuda_done(&w->q, cu->cuFuncSetAttribute(*f, CU_SHARED_DYNAMIC, (int)shared_most(to)),
                           "preparing a kernel", e);
    }
    for (int k = 0; k < CUDA_FLOATS * CUDA_FAST_WAYS && !rc; k++) {
        snprintf(name, sizeof name, "cuda_fmat_%s_%d", dtype_info[float_types[k / CUDA_FAST_WAYS]].name,
                 rows[k % CUDA_FAST_WAYS]);
        cu_function *f = &to->fmat[k / CUDA_FAST_WAYS][k % CUDA_FAST_WAYS];
        rc = cuda_find(&w->q, w->fast, name, f, e);
        if (!rc)
            rc = cuda_done(&w->q, cu->cuFuncSetAttribute(*f, CU_SHARED_DYNAMIC, float_shared(k / CUDA_FAST_WAYS)),
                           "preparing a kernel", e);
    }
    return rc;
}

/* The kernel for so many rows: of experts a token's rows are `used`, each of another expert. */
static int decode_way(product_rows r)
{
    const int each = r.used ? (r.rows + r.used - 1) / r.used : r.rows;
    int way = 0;
    while (way + 1 < QDECODE_WAYS && each > decode_rows[way]) way++;
    return way;
}

/* Warps that share a panel: as few as give every multiprocessor two blocks; a block is within one head. */
static int decode_share(const cuda_kernels *k, const qdecode_args *a, int64_t row_blocks, int warps)
{
    int share = 1;
    while (share < warps && (row_blocks * a->panels * share < (int64_t)2 * k->processors * warps ||
                             (a->head_rows < INT64_MAX && a->head_rows / PANEL_ROWS % (warps / share))))
        share *= 2;
    return share;
}

int cuda_qdecode_launch(cuda_queue *q, const cuda_kernels *k, int kind, product_rows r, qdecode_args *a, err *e)
{
    const int way = decode_way(r), rows = decode_rows[way];
    const int64_t row_blocks = cuda_blocks(r.rows, rows), half = k->shared_optin / 2 - 1536;
    int warps = QDECODE_WARPS;
    int64_t shared = half >= shared_least(rows, warps) ? half : shared_most(k);
    if (shared < shared_least(rows, warps)) warps /= 2;
    a->shared = (int32_t)shared;
    a->share = decode_share(k, a, row_blocks, warps);
    const cuda_grid grid = {a->table ? r.rows : row_blocks, cuda_blocks(a->panels, warps / a->share), warps * 32,
                            (uint64_t)shared};
    return cuda_launch_fast(q, k->qdecode[kind][way], grid, (void *[]){a}, e);
}

int cuda_fmat_launch(cuda_queue *q, const cuda_kernels *k, int type, int rows, fmat_args *a, err *e)
{
    const int way = rows > 1 && !a->table; /* rows sorted by expert go one by one: a block of threads has one matrix */
    const cuda_grid grid = {cuda_blocks(rows, way ? CUDA_FAST_ROWS : 1), a->blocks, FMAT_THREADS,
                            (uint64_t)float_shared(type)};
    return cuda_launch_fast(q, k->fmat[type][way], grid, (void *[]){a}, e);
}

static product_args product_of(const cuda_device *d, const cuda_segment *s, const step *st, const op *o)
{
    const program *p = d->p;
    const held_weight *w = cuda_matrix(d, o);
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

/* Whether the kernels of many rows take each of these matrices. */
static bool are_many(const cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n)
{
    bool many = true;
    for (int i = 0; i < n; i++) {
        const product_args of = product_of(d, s, st, &d->p->ops[ops[i]]);
        many = many && cuda_prefill_pays(cuda_matrix(d, &d->p->ops[ops[i]]), &of);
    }
    return many;
}

/* One matrix by these kernels. */
static int start_many(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const held_weight *w = cuda_matrix(d, o);
    qmat_args a = {.of = product_of(d, s, st, o),
                   .w = w->data,
                   .x = cuda_at(d, s, o->in[0]),
                   .w_stride = w->stride,
                   .type = (int32_t)w->type,
                   .factor = panel_format_of(w->type)->factor};
    a.x_stride = act_row_bytes(a.of.x_cols, d->p->tensors[o->in[0]].block);
    return cuda_prefill_start(d, w, &a, e);
}

/* The matrices of a launch; their panels or the like, of so many outputs each. */
static int32_t parts_of(const cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n,
                        int outputs, product_part *to)
{
    int32_t first = 0;
    for (int i = 0; i < n; i++) {
        const op *o = &d->p->ops[ops[i]];
        const product_args of = product_of(d, s, st, o);
        const held_weight *w = cuda_matrix(d, o);
        to[i] = (product_part){
            .w = w->data, .bias = of.bias, .y = of.y, .n = of.n, .stride = w->stride, .first = first};
        first += (int32_t)cuda_blocks(of.n, outputs);
    }
    return first;
}

/* Up to PRODUCT_PARTS packed matrices of one type times few rows. */
static qdecode_args decode_args(const cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n)
{
    const program *p = d->p;
    const op *first = &p->ops[*ops];
    const product_args of = product_of(d, s, st, first);
    const held_weight *w = cuda_matrix(d, first);
    qdecode_args a = {.table = of.table,
                      .live = of.live,
                      .x = cuda_at(d, s, first->in[0]),
                      .x_stride = act_row_bytes(of.x_cols, p->tensors[first->in[0]].block),
                      .cols = of.cols,
                      .x_cols = of.x_cols,
                      .head_rows = of.head_rows,
                      .parts = n,
                      .type = (int32_t)w->type,
                      .factor = panel_format_of(w->type)->factor};
    a.panels = parts_of(d, s, st, ops, n, PANEL_ROWS, a.part);
    return a;
}

static int start_decode(cuda_device *d, const step *st, const op *o, qdecode_args *a, err *e)
{
    const product_rows rows = {st->n[d->p->tensors[o->out].axis], a->table ? d->p->n_used : 0};
    return cuda_qdecode_launch(&d->q, &d->w->kernels, panel_format_of((dtype)a->type)->kind, rows, a, e);
}

static int start_packed(cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n, err *e)
{
    int rc = OK;
    if (are_many(d, s, st, ops, n)) {
        for (int i = 0; i < n && !rc; i++) rc = start_many(d, s, st, &d->p->ops[ops[i]], e);
        return rc;
    }
    qdecode_args a = decode_args(d, s, st, ops, n);
    return start_decode(d, st, &d->p->ops[*ops], &a, e);
}

/* Place in float_types of the type of a matrix; CUDA_FLOATS: packed, or another type. */
static int float_type_of(const cuda_device *d, const op *o)
{
    const held_weight *w = cuda_matrix(d, o);
    int k = 0;
    while (k < CUDA_FLOATS && (w->packed || float_types[k] != w->type)) k++;
    return k;
}

/* Up to PRODUCT_PARTS float matrices of one type. */
static int start_floats(cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n, err *e)
{
    const op *first = &d->p->ops[*ops];
    const product_args of = product_of(d, s, st, first);
    fmat_args a = {.table = of.table,
                   .live = of.live,
                   .x = cuda_at(d, s, first->in[0]),
                   .cols = of.cols,
                   .x_cols = of.x_cols,
                   .head_rows = of.head_rows,
                   .parts = n};
    a.blocks = parts_of(d, s, st, ops, n, FMAT_OUTPUTS, a.part);
    return cuda_fmat_launch(&d->q, &d->w->kernels, float_type_of(d, first), of.rows, &a, e);
}

/* How many ops from the first on can be one launch. */
static int same_launch(const cuda_device *d, const uint32_t *ops, int n)
{
    const program *p = d->p;
    const op *first = &p->ops[*ops];
    int i = 1;
    for (; i < n && i < PRODUCT_PARTS && first->kind != OP_MATMUL_HEADS; i++) {
        const op *o = &p->ops[ops[i]];
        if (o->kind != first->kind || o->in[3] != first->in[3] ||
            cuda_matrix(d, o)->type != cuda_matrix(d, first)->type)
            break;
    }
    return i;
}

/* n matrices by kernels of ours; *done false: there are none for one. */
static int start_exact(cuda_device *d, const cuda_segment *s, const step *st, const uint32_t *ops, int n, bool *done,
                       err *e)
{
    const bool packed = d->p->tensors[d->p->ops[*ops].in[0]].block;
    int rc = OK;
    *done = true;
    for (int i = 0; i < n && !packed; i++) *done = *done && float_type_of(d, &d->p->ops[ops[i]]) < CUDA_FLOATS;
    for (int i = 0, each; i < n && *done && !rc; i += each) {
        each = same_launch(d, ops + i, n - i);
        rc = packed ? start_packed(d, s, st, ops + i, each, e) : start_floats(d, s, st, ops + i, each, e);
    }
    return rc;
}

/* Two matrices with ACT, MUL, QUANT as one kernel; *done false: of another type each, or of many rows. */
static int start_gated(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e)
{
    const uint32_t ops[] = {of->first, of->first + 1};
    float *y[2];
    *done = same_launch(d, ops, 2) == 2 && !are_many(d, s, st, ops, 2);
    if (!*done) return OK;
    const op *o = &d->p->ops[of->first];
    qdecode_args a = decode_args(d, s, st, ops, 2);
    *done = cuda_codes_end(d, s, of, st->n[d->p->tensors[o->out].axis], &a.end, y);
    if (!*done) return OK;
    for (int i = 0; i < 2; i++) a.part[i].y = y[i];
    return start_decode(d, st, o, &a, e);
}

int cuda_product_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e)
{
    const bool ends = of->way == CUDA_CODES;
    const uint32_t i = of->first, ops[] = {i, i + 1, i + 2, i + 3};
    const int n = ends ? 2 : of->n;
    int rc = cuda_wide_start(d, s, st, ops, n, done, e);
    if (!rc && !*done && ends) {
        rc = start_gated(d, s, st, of, done, e);
        if (rc || *done) return rc;
    }
    if (!rc && !*done) rc = start_exact(d, s, st, ops, n, done, e);
    if (rc || !*done || !ends) return rc;
    const cuda_ops rest = {.first = i + 2, .n = (uint8_t)(of->n - 2), .way = CUDA_ROWS, .kept = of->kept};
    return cuda_run_start(d, s, st, &rest, e);
}
