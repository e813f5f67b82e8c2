/* t_cuda_recur.c - RECUR on devices that are programs here (tests/gpu): rows and slots in the bits of the definition,
 * for recurrences of published models and odd shapes, with rows that are kept apart and then taken, launched and
 * replayed; and how many instructions a number of the state takes. */
#include "recur_rig.h"

#ifdef HAVE_CUDA
#include "cuda_rig.h"
#include "cuda/cuda_backend.h"

enum { SLOTS = 8 };

/* A device with the op, and the rig's slots in it. */
typedef struct recur_device {
    op ops[1];
    uint32_t ends[1];
    ref out[1];
    weight_set *w;
    dev *d;
    segment s;
} recur_device;

static void device_open(recur_device *r, rig *g, const op *o)
{
    const backend *be = &cuda_backend;
    bool reads[RIG_TENSORS];
    int max_rows[AXIS_COUNT];
    weight_options choice = {.number = -1};
    cache_options cache = g->d.cache;
    err e = {0};
    *r = (recur_device){.ops = {*o}, .ends = {1}, .out = {o->out}};
    cache.n_slot = SLOTS;
    cache.slot_rows = SLOT_ROWS_MAX;
    for (int i = 0; i < RIG_TENSORS; i++) reads[i] = true;
    for (int i = 0; i < AXIS_COUNT; i++) max_rows[i] = RIG_ROWS;
    g->p.ops = r->ops;
    g->p.n_op = 1;
    assert_ok(be->weights_open(&r->w, &g->p, reads, &choice, &e), &e);
    assert_ok(be->weights_read(r->w, &e), &e);
    assert_ok(be->open(&r->d, r->w, &g->p, max_rows, &cache, &e), &e);
    r->s = (segment){.p = &g->p,
                     .be = be,
                     .on = r->d,
                     .out = r->out,
                     .n_out = 1,
                     .act_bytes = g->cap,
                     .n_stretch = 1,
                     .ends = r->ends};
    assert_ok(be->compile(r->d, &r->s, &e), &e);
    for (int32_t i = 0; i < SLOTS; i++)
        assert_ok(be->page_put(r->d, GROUP_MAX, i, (const uint8_t *)slot_at(g->slots, i), &e), &e);
}

static void device_close(recur_device *r, rig *g)
{
    cuda_backend.discard(r->d, &r->s);
    cuda_backend.close(r->d);
    cuda_backend.weights_close(r->w);
    g->p.ops = g->ops;
}

/* A step of the rig on both, `times` times on the device; compares rows and the slots that were written. */
static void compare_step(recur_device *r, rig *g, const recur_case *c, int times)
{
    const backend *be = &cuda_backend;
    const op o = r->ops[0];
    const int64_t dim = (int64_t)c->heads * c->width, all = g->st.n[AXIS_TOK] * dim;
    float *got = mem_array((size_t)(all + floats_of(c)), sizeof *got), *slot = got + all;
    err e = {0};
    assert_non_null(got);
    for (int k = 0; k < 3; k++)
        if (o.in[k])
            assert_ok(be->act_put(r->d, &r->s, o.in[k], 0, tensor_count(&g->t[o.in[k]]), g->st.n[AXIS_TOK],
                                  rig_at(g, o.in[k]), &e),
                      &e);
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
            fail_msg("%s: row %d, column %d is %a, not %a", c->what, (int)(i / dim), (int)(i % dim), (double)got[i],
                     (double)rig_at(g, o.out)[i]);
    for (int s = 0; s < g->st.n_seq; s++) {
        assert_ok(be->page_get(r->d, GROUP_MAX, g->slot_write[s], (uint8_t *)slot, &e), &e);
        if (memcmp(slot, slot_at(g->slots, g->slot_write[s]), (size_t)floats_of(c) * sizeof *slot))
            fail_msg("%s: the slot of sequence %d differs", c->what, s);
    }
    mem_free(got);
}

static void equals_the_definition(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const recur_case *c = &cases[i];
        int32_t apart[] = {c->seq_rows[0] < 3 ? 1 : 3, 1, 2}, taken[] = {apart[0] - 1, 1, 0}, none[] = {0, 0, 0};
        static rig g;
        recur_device r;
        rig_open(&g, 1 << 20);
        rig_sequences(&g, c->n_seq, c->seq_rows, c->last);
        rig_slots(&g, floats_of(c), row_floats(c), SLOTS);
        const op o = recur_op(&g, c);
        device_open(&r, &g, &o);
        g.st.slot_apart = apart;
        compare_step(&r, &g, c, 3);
        for (int s = 0; s < c->n_seq; s++) {
            const int32_t written = g.slot_write[s];
            g.slot_write[s] = g.slot_read[s];
            g.slot_read[s] = written;
        }
        static const int more[] = {1, 1, 5}, last[] = {50, 30, 90};
        rig_sequences(&g, c->n_seq, more, last);
        g.st.slot_taken = taken;
        g.st.slot_apart = none;
        compare_step(&r, &g, c, 1);
        device_close(&r, &g);
        rig_close(&g);
    }
}

/* Lane-instructions for each number of a state and token, of a prompt. Bars are what was reached. */
static void takes_few_instructions(void **unused)
{
    (void)unused;
    static const struct {
        recur_case of;
        double most;
    } rows[] = {
        {{"gated delta", 128, 1, 128, 1, 1, 1, RECUR_OWN, true, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 7.3},
        {{"KDA", 128, 1, 128, 1, 128, 1, RECUR_OWN, true, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 8.1},
        {{"Mamba 2", 128, 2, 64, 1, 1, 1, RECUR_STEP, false, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 6.2},
        {{"Mamba 1", 16, 128, 1, 1, 1, 16, RECUR_STEP, false, .n_seq = 1, .seq_rows = {40}, .last = {39}}, 58},
    };
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const uint64_t *done = lib ? dlsym(lib, "machine_warp_instructions") : NULL;
    assert_non_null(done);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const recur_case *c = &rows[i].of;
        static rig g;
        recur_device r;
        rig_open(&g, 1 << 20);
        rig_sequences(&g, c->n_seq, c->seq_rows, c->last);
        rig_slots(&g, floats_of(c), row_floats(c), SLOTS);
        const op o = recur_op(&g, c);
        device_open(&r, &g, &o);
        const uint64_t before = *done;
        compare_step(&r, &g, c, 1);
        const double each = 32 * (double)(*done - before) / ((double)floats_of(c) * c->seq_rows[0]);
        if (getenv("SHARES")) print_message("%s: %.2f\n", c->what, each);
        if (each > rows[i].most) fail_msg("%s: %.2f lane-instructions, more than %.2f", c->what, each, rows[i].most);
        device_close(&r, &g);
        rig_close(&g);
    }
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_definition),
                                       cmocka_unit_test(takes_few_instructions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    skip_msg("this build has no CUDA backend");
    return 0;
}
#endif
