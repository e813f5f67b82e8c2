/* cuda_op_rig.h - ops of a rig (rig.h) on the CUDA backend, whose device is a program (tests/gpu): the bits of the
 * reference. */
#pragma once
#include "cuda/cuda_backend.h"
#include "cuda_rig.h"
#include "rig.h"

/* Ops of a rig that a device has. */
typedef struct cuda_op_rig {
    op ops[4];
    uint32_t ends[1];
    ref out[1];
    weight_set *w;
    dev *d;
    segment s;
} cuda_op_rig;

/* The rig's first n_op of r->ops on a device with its weights, of which no row nor page is there yet. */
static inline void cuda_op_compile(cuda_op_rig *r, rig *g, const cache_options *cache)
{
    const backend *be = &cuda_backend;
    bool reads[RIG_TENSORS];
    int max_rows[AXIS_COUNT];
    weight_options choice = {.number = -1};
    err e = {0};
    for (int i = 0; i < RIG_TENSORS; i++) reads[i] = true;
    for (int i = 0; i < AXIS_COUNT; i++) max_rows[i] = RIG_ROWS;
    g->p.ops = r->ops;
    assert_ok(be->weights_open(&r->w, &g->p, reads, &choice, &e), &e);
    assert_ok(be->weights_read(r->w, &e), &e);
    assert_ok(be->open(&r->d, r->w, &g->p, max_rows, cache, &e), &e);
    r->s = (segment){.p = &g->p,
                     .be = be,
                     .on = r->d,
                     .out = r->out,
                     .n_out = 1,
                     .act_bytes = g->cap,
                     .n_stretch = 1,
                     .ends = r->ends};
    assert_ok(be->compile(r->d, &r->s, &e), &e);
}

/* n ops over the rig's pages, with the rows of the activation `in` and of others that the first op reads. A KV_PUT that
 * is not run makes a program with a state one that has pages. */
static inline void cuda_op_open(cuda_op_rig *r, rig *g, const op *o, uint32_t n, ref in)
{
    const backend *be = &cuda_backend;
    const kv_store *kv = &g->kv[0];
    cache_options cache = g->d.cache;
    err e = {0};
    *r = (cuda_op_rig){.ends = {n}, .out = {o[n - 1].out}};
    cache.k_type = kv->k_type;
    cache.v_type = kv->v_type;
    assert_true(n < 4);
    memcpy(r->ops, o, n * sizeof *o);
    r->ops[n] = (op){.kind = OP_KV_PUT, .in = {in, in}};
    g->p.n_op = n + g->p.n_state;
    g->p.n_group = 1;
    g->p.group_axis[0] = (uint8_t)g->states[0].axis;
    cuda_op_compile(r, g, &cache);
    for (int32_t i = 0; i < cache.n_page[0]; i++)
        assert_ok(be->page_put(r->d, 0, i, kv->k + (uint64_t)i * kv->stride, &e), &e);
    for (int k = -1; k < 4; k++) {
        const ref t = k < 0 ? in : o->in[k];
        const tensor *x = &g->t[t];
        if (k < 0 || (t && t != in && x->kind == TENSOR_ACT))
            assert_ok(be->act_put(r->d, &r->s, t, 0, x->dim[0], g->st.n[x->axis], rig_at(g, t), &e), &e);
    }
}

static inline void cuda_op_close(cuda_op_rig *r, rig *g)
{
    cuda_backend.discard(r->d, &r->s);
    cuda_backend.close(r->d);
    cuda_backend.weights_close(r->w);
    g->p.ops = g->ops;
}

/* Computes them; the rows of the last one go to `to`. Runs `times` times: from the second time on a captured graph. */
static inline void cuda_op_run(rig *g, const op *o, uint32_t n, ref in, int times, float *to)
{
    const backend *be = &cuda_backend;
    const ref last = o[n - 1].out;
    cuda_op_rig r;
    err e = {0};
    cuda_op_open(&r, g, o, n, in);
    for (int i = 0; i < times; i++) {
        assert_ok(be->start(r.d, &r.s, 0, &g->st, &e), &e);
        assert_ok(be->wait(r.d, &e), &e);
    }
    assert_ok(be->act_get(r.d, &r.s, last, 0, g->st.n[g->t[last].axis], to, &e), &e);
    cuda_op_close(&r, g);
}
