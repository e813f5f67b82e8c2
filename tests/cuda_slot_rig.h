/* cuda_slot_rig.h - an op with a slot on the CUDA backend, whose device is a program (tests/gpu): rows and slots in the
 * bits of the reference. */
#pragma once
#include "cuda_op_rig.h"

enum { SLOTS = 8 };

/* A device with the op, and the rig's slots in it. */
static inline void slot_device_open(cuda_op_rig *r, rig *g, const op *o)
{
    cache_options cache = g->d.cache;
    err e = {0};
    *r = (cuda_op_rig){.ops = {*o}, .ends = {1}, .out = {o->out}};
    cache.n_slot = SLOTS;
    cache.slot_rows = SLOT_ROWS_MAX;
    g->p.n_op = 1;
    cuda_op_compile(r, g, &cache);
    for (int32_t i = 0; i < SLOTS; i++)
        assert_ok(cuda_backend.page_put(r->d, GROUP_MAX, i, (const uint8_t *)slot_at(g->slots, i), &e), &e);
}

/* A step of the rig on both, `times` times on the device; compares rows and the slots that were written. */
static inline void slot_device_compare(cuda_op_rig *r, rig *g, const char *what, int times)
{
    const backend *be = &cuda_backend;
    const op o = r->ops[0];
    const int64_t dim = tensor_count(&g->t[o.out]), all = g->st.n[AXIS_TOK] * dim, floats = g->states[0].slot_floats;
    float *got = mem_array((size_t)(all + floats), sizeof *got), *slot = got + all;
    err e = {0};
    assert_non_null(got);
    for (int k = 0; k < 3; k++) {
        const tensor *t = &g->t[o.in[k]];
        if (o.in[k] && t->kind == TENSOR_ACT)
            assert_ok(be->act_put(r->d, &r->s, o.in[k], 0, t->dim[0], g->st.n[AXIS_TOK], rig_at(g, o.in[k]), &e), &e);
    }
    for (int i = 0; i < times; i++) {
        assert_ok(be->start(r->d, &r->s, 0, &g->st, &e), &e);
        assert_ok(be->wait(r->d, &e), &e);
    }
    assert_ok(be->act_get(r->d, &r->s, o.out, 0, g->st.n[AXIS_TOK], got, &e), &e);
    g->p.ops = g->ops;
    rig_run(g, cpu_kernels_named("c"), 1, &o);
    g->p.ops = r->ops;
    for (int64_t i = 0; i < all; i++)
        if (memcmp(&rig_at(g, o.out)[i], &got[i], sizeof *got))
            fail_msg("%s: row %d, column %d is %a, not %a", what, (int)(i / dim), (int)(i % dim), (double)got[i],
                     (double)rig_at(g, o.out)[i]);
    for (int s = 0; s < g->st.n_seq; s++) {
        assert_ok(be->page_get(r->d, GROUP_MAX, g->slot_write[s], (uint8_t *)slot, &e), &e);
        if (memcmp(slot, slot_at(g->slots, g->slot_write[s]), (size_t)floats * sizeof *slot))
            fail_msg("%s: the slot of sequence %d differs", what, s);
    }
    mem_free(got);
}

/* Such a step whose last rows are kept apart, thrice, then one that takes some of them. */
static inline void slot_device_check(rig *g, const op *o, const char *what)
{
    int32_t apart[SLOTS], taken[SLOTS], none[SLOTS] = {0};
    int more[SLOTS], last[SLOTS];
    cuda_op_rig r;
    for (int s = 0; s < g->st.n_seq; s++) {
        const int rows = g->seq_row[s + 1] - g->seq_row[s];
        apart[s] = rows < 3 ? 1 : 3;
        taken[s] = apart[s] - s % 2;
        more[s] = rows < 5 ? 1 : 5;
        last[s] = g->seq_len[s] + 20;
    }
    slot_device_open(&r, g, o);
    g->st.slot_apart = apart;
    slot_device_compare(&r, g, what, 3);
    for (int s = 0; s < g->st.n_seq; s++) {
        const int32_t written = g->slot_write[s];
        g->slot_write[s] = g->slot_read[s];
        g->slot_read[s] = written;
    }
    rig_sequences(g, g->st.n_seq, more, last);
    g->st.slot_taken = taken;
    g->st.slot_apart = none;
    slot_device_compare(&r, g, what, 1);
    cuda_op_close(&r, g);
}
