/* cuda_op_rig.h - ops of a rig (rig.h) on the CUDA backend, whose device is a program (tests/gpu): the bits of the
 * reference. */
#pragma once
#include "cuda/cuda_backend.h"
#include "cuda_rig.h"
#include "rig.h"

/* Computes n ops, the first of which reads the activation `in`, over the rig's pages; the rows of the last one go to
 * `to`. A KV_PUT that is not run makes a program with a state one that has pages. Runs `times` times: from the second
 * time on a captured graph. */
static inline void cuda_op_run(rig *g, const op *o, uint32_t n, ref in, int times, float *to)
{
    const backend *be = &cuda_backend;
    const kv_store *kv = &g->kv[0];
    const ref last = o[n - 1].out;
    op ops[4];
    uint32_t ends[1] = {n};
    ref out[1] = {last};
    bool reads[RIG_TENSORS];
    int max_rows[AXIS_COUNT];
    weight_options choice = {.number = -1};
    cache_options cache = g->d.cache;
    weight_set *w = NULL;
    dev *d = NULL;
    err e = {0};
    cache.k_type = kv->k_type;
    cache.v_type = kv->v_type;
    for (int i = 0; i < RIG_TENSORS; i++) reads[i] = true;
    for (int i = 0; i < AXIS_COUNT; i++) max_rows[i] = RIG_ROWS;
    assert_true(n < 4);
    memcpy(ops, o, n * sizeof *o);
    ops[n] = (op){.kind = OP_KV_PUT, .in = {in, in}};
    g->p.ops = ops;
    g->p.n_op = n + g->p.n_state;
    g->p.n_group = 1;
    g->p.group_axis[0] = (uint8_t)g->states[0].axis;
    assert_ok(be->weights_open(&w, &g->p, reads, &choice, &e), &e);
    assert_ok(be->weights_read(w, &e), &e);
    assert_ok(be->open(&d, w, &g->p, max_rows, &cache, &e), &e);
    segment s = {
        .p = &g->p, .be = be, .on = d, .out = out, .n_out = 1, .act_bytes = g->cap, .n_stretch = 1, .ends = ends};
    assert_ok(be->compile(d, &s, &e), &e);
    for (int32_t i = 0; i < cache.n_page[0]; i++)
        assert_ok(be->page_put(d, 0, i, kv->k + (uint64_t)i * kv->stride, &e), &e);
    const tensor *x = &g->t[in];
    assert_ok(be->act_put(d, &s, in, 0, x->dim[0], g->st.n[x->axis], rig_at(g, in), &e), &e);
    for (int i = 0; i < times; i++) {
        assert_ok(be->start(d, &s, 0, &g->st, &e), &e);
        assert_ok(be->wait(d, &e), &e);
    }
    assert_ok(be->act_get(d, &s, last, 0, g->st.n[g->t[last].axis], to, &e), &e);
    be->discard(d, &s);
    be->close(d);
    be->weights_close(w);
    g->p.ops = g->ops;
}
