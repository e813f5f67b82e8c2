/* cuda_fast.c - chooses the kernel of fast.cu for a launch. Ops without one run by their definitions; the bits are the
 * same. */
#include "cuda/cuda_args.h"
#include "cuda/cuda_heads.h"
#include "cuda/cuda_prefill.h"
#include "cuda/cuda_recur.h"
#include "cuda/cuda_route.h"
#include "cuda/cuda_runs.h"

int cuda_fast_load(cuda_weights *w, err *e)
{
    int rc = cuda_load_image(&w->q, "fast", &w->fast, e);
    if (!rc) rc = cuda_product_load(w, e);
    if (!rc) rc = cuda_prefill_load(w, e);
#define X(name)                                                                                                        \
    if (!rc) rc = cuda_find(&w->q, w->fast, "cuda_" #name, &w->kernels.name, e);
    CUDA_FAST_LIST(X)
#undef X
    if (!rc) rc = cuda_attn_load(w, e);
    return rc ? rc : cuda_run_load(w, e);
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
    return cuda_launch_fast(&d->q, d->w->kernels.embed, grid, (void *[]){&a}, e);
}

int cuda_fast_start(cuda_device *d, const cuda_segment *s, const step *st, const cuda_ops *of, bool *done, err *e)
{
    const op *o = &d->p->ops[of->first];
    *done = true;
    if (of->way == CUDA_ROWS) return cuda_run_start(d, s, st, of, e);
    if (of->way == CUDA_HEADS) return cuda_heads_start(d, s, st, of, e);
    if (of->way == CUDA_ROUTE) return cuda_route_start(d, s, st, of, e);
    if (op_is(o, OPF_MATRIX)) return cuda_product_start(d, s, st, of, done, e);
    if (o->kind == OP_ATTN) return cuda_attn_start(d, s, st, of, done, e);
    if (o->kind == OP_CONV) return cuda_conv_start(d, s, st, o, e);
    if (o->kind == OP_RECUR) return cuda_recur_start(d, s, st, o, done, e);
    if (o->kind == OP_EMBED && o->u.embed.by != EMBED_BY_EXPERT) return start_embed(d, s, st, o, e);
    *done = false;
    return OK;
}
