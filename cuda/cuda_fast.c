/* cuda_fast.c - chooses the kernel of fast.cu for an op, and fills its parameters. Ops without one run by their
 * definitions; the bits are the same. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_state.h"
#include "tensor/act_q8.h"

int cuda_fast_load(cuda_weights *w, err *e)
{
    int rc = cuda_load_image(&w->q, "fast", &w->fast, e);
    if (!rc) rc = cuda_product_load(w, e);
#define X(name)                                                                                                        \
    if (!rc) rc = cuda_find(&w->q, w->fast, "cuda_" #name, &w->kernels.name, e);
    CUDA_FAST_LIST(X)
#undef X
    return rc;
}

static int start_norm(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *out = &d->p->tensors[o->out];
    const int64_t groups = tensor_count(out) / o->u.norm.width;
    norm_args a = {.x = cuda_at(d, s, o->in[0]),
                   .gain = cuda_at(d, s, o->in[1]),
                   .bias = cuda_at(d, s, o->in[2]),
                   .y = cuda_at(d, s, o->out),
                   .live = cuda_live(s, out->axis),
                   .groups = groups,
                   .gain_n = o->in[1] ? tensor_count(&d->p->tensors[o->in[1]]) : 1,
                   .bias_n = o->in[2] ? tensor_count(&d->p->tensors[o->in[2]]) : 1,
                   .width = o->u.norm.width,
                   .kind = o->u.norm.kind,
                   .eps = o->u.norm.eps};
    const cuda_grid grid = {st->n[out->axis] * groups, 1, NORM_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.norm, grid, (void *[]){&a}, e);
}

static int start_quant(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *out = &d->p->tensors[o->out];
    quant_args a = {.x = cuda_at(d, s, o->in[0]),
                    .to = cuda_at(d, s, o->out),
                    .live = cuda_live(s, out->axis),
                    .cols = tensor_count(out),
                    .block = out->block,
                    .residual = o->u.quant.residual};
    const int64_t units = st->n[out->axis] * (act_padded(a.cols) / a.block);
    const cuda_grid grid = {cuda_blocks(units, QUANT_THREADS / 32), 1, QUANT_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.quant, grid, (void *[]){&a}, e);
}

static int start_each(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *out = &d->p->tensors[o->out], *b = &d->p->tensors[o->in[1]];
    each_args a = {.x = cuda_at(d, s, o->in[0]),
                   .b = cuda_at(d, s, o->in[1]),
                   .y = cuda_at(d, s, o->out),
                   .live = cuda_live(s, out->axis),
                   .dim = tensor_count(out),
                   .o = *o};
    a.by_column = o->in[1] && b->kind != TENSOR_ACT;
    a.by_row = o->in[1] && !a.by_column && tensor_count(b) < a.dim;
    const cuda_grid grid = {cuda_blocks(st->n[out->axis] * a.dim, EACH_THREADS), 1, EACH_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.each, grid, (void *[]){&a}, e);
}

static int start_rope(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *out = &d->p->tensors[o->out];
    const uint64_t variants = (uint64_t)o->u.rope.table * CUDA_VARIANTS * sizeof(rope_variant);
    rope_args a = {.st = cuda_step_at(s),
                   .variant = (const rope_variant *)(uintptr_t)(d->rope_variants + variants),
                   .x = cuda_at(d, s, o->in[0]),
                   .y = cuda_at(d, s, o->out),
                   .heads = tensor_count(out) / o->u.rope.width,
                   .axis = out->axis,
                   .table = o->u.rope.table,
                   .width = o->u.rope.width,
                   .half = o->u.rope.dims / 2,
                   .halves = o->u.rope.style == ROPE_HALVES};
    const cuda_grid grid = {cuda_blocks(st->n[out->axis] * a.heads * (a.width - a.half), EACH_THREADS), 1, EACH_THREADS,
                            0};
    return cuda_launch_grid(&d->q, d->w->kernels.rope, grid, (void *[]){&a}, e);
}

static int start_kv_put(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *in = &d->p->tensors[o->in[0]];
    kv_args a = {.st = cuda_step_at(s),
                 .k = cuda_at(d, s, o->in[0]),
                 .v = cuda_at(d, s, o->in[1]),
                 .kv = d->kv[o->state],
                 .group = d->p->states[o->state].group,
                 .axis = in->axis};
    const cuda_grid grid = {cuda_blocks(2 * (int64_t)st->n[in->axis] * a.kv.heads, KV_THREADS / 32), 1, KV_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.kv_put, grid, (void *[]){&a}, e);
}

static int start_embed(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *t = &d->p->tensors[o->in[0]], *out = &d->p->tensors[o->out];
    embed_args a = {.st = cuda_step_at(s),
                    .y = cuda_at(d, s, o->out),
                    .dim = tensor_count(out),
                    .axis = out->axis,
                    .by = o->u.embed.by,
                    .offset = o->u.embed.offset};
    if (t->kind == TENSOR_CONST)
        a.table = (held_weight){.data = cuda_at(d, s, o->in[0]),
                                .type = DTYPE_F32,
                                .stride = (uint64_t)t->dim[1] * sizeof(float),
                                .rows = t->dim[0],
                                .cols = t->dim[1]};
    else a.table = d->w->helds[t->weight];
    const cuda_grid grid = {st->n[out->axis], 1, ROW_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.embed, grid, (void *[]){&a}, e);
}

static int start_copy(cuda_device *d, const cuda_segment *s, const step *st, const op *o, err *e)
{
    const tensor *out = &d->p->tensors[o->out];
    copy_args a = {.x = cuda_at(d, s, o->in[0]),
                   .y = cuda_at(d, s, o->out),
                   .st = o->kind == OP_TAKE_OUT ? cuda_step_at(s) : NULL,
                   .live = cuda_live(s, out->axis),
                   .x_dim = tensor_count(&d->p->tensors[o->in[0]]),
                   .dim = tensor_count(out),
                   .from = o->kind == OP_COLUMNS ? o->u.columns.from : 0};
    const cuda_grid grid = {st->n[out->axis], 1, ROW_THREADS, 0};
    return cuda_launch_grid(&d->q, d->w->kernels.copy, grid, (void *[]){&a}, e);
}

int cuda_fast_start(cuda_device *d, const cuda_segment *s, const step *st, uint32_t i, bool *done, err *e)
{
    const op *o = &d->p->ops[i];
    *done = true;
    if (st->n[d->p->tensors[o->out ? o->out : o->in[0]].axis] == 0) return OK; /* there is nothing to do */
    if (op_is(o, OPF_MATRIX)) return cuda_product_start(d, s, st, &i, 1, done, e);
    if (op_is(o, OPF_ELEMENTWISE)) return start_each(d, s, st, o, e);
    switch ((op_kind)o->kind) {
    case OP_NORM: return start_norm(d, s, st, o, e);
    case OP_QUANT: return start_quant(d, s, st, o, e);
    case OP_ATTN: return cuda_attn_start(d, s, st, o, done, e);
    case OP_ROPE: return start_rope(d, s, st, o, e);
    case OP_KV_PUT: return start_kv_put(d, s, st, o, e);
    case OP_EMBED: return start_embed(d, s, st, o, e);
    case OP_TAKE_OUT:
    case OP_COLUMNS: return start_copy(d, s, st, o, e);
    default: *done = false; return OK;
    }
}
