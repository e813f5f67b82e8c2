/* pages_rig.h - for tests of a backend: pages that go from one device to another in mid-text, activations that cross in
 * more than one stream, plans of one program at the same time. */
#pragma once
#include "core/kv_type.h"
#include "engine/engine_state.h"
#include "model_rig.h"

#include <pthread.h>

enum { ROWS = 64, PAGES = 8, CAP = 4, CTX = 256 };

static const model_shape windows = {.layers = 3,
                                    .dim = 32,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 10,
                                    .ffn = 40,
                                    .vocab = 61,
                                    .ctx = CTX,
                                    .window = 70,
                                    .rope_dims = 10,
                                    .gated = true,
                                    .type = DTYPE_F32};

/* `more`: a backend besides the CPU's; kv_host: plan_options'. */
static inline plan *open_at(const program *p, const char *devices, dtype kv, int in_flight, backend_use more,
                            int kv_host)
{
    const backend_use list[] = {{&cpu_backend, NULL}, more, {0}};
    return rig_plan(p, (plan_case){.devices = devices,
                                   .backends = list,
                                   .rows = ROWS,
                                   .pages = PAGES,
                                   .kv = kv,
                                   .in_flight = in_flight,
                                   .kv_host = kv_host});
}

static inline plan *open_on(const program *p, const char *devices, dtype kv, int in_flight, backend_use more)
{
    return open_at(p, devices, kv, in_flight, more, 0);
}

/* Rows pos0 … pos0 + n - 1 of one sequence, whose page k of group g is page `first` + k + g. */
typedef struct rows {
    int32_t token[ROWS], pos[ROWS], seq[ROWS], out[ROWS], len, row[2], variant[8], page[GROUP_MAX * CAP];
    step st;
} rows;

static inline const step *rows_of(rows *r, const program *p, int pos0, int n, int first)
{
    *r = (rows){.len = pos0 + n, .row = {0, n}};
    for (int i = 0; i < n; i++) {
        r->token[i] = (7 * (pos0 + i) + 3) % (int)p->vocab;
        r->pos[i] = pos0 + i;
        r->out[i] = i;
    }
    for (uint32_t i = 0; i < p->n_group * CAP; i++) r->page[i] = first + (int32_t)(i % CAP + i / CAP);
    r->st = (step){.tok = {r->token, r->seq, r->pos, r->seq, &r->len, r->row},
                   .out = r->out,
                   .n_seq = 1,
                   .seq_rope = r->variant,
                   .page = r->page,
                   .page_cap = CAP};
    r->st.n[AXIS_TOK] = r->st.n[AXIS_OUT] = n;
    return &r->st;
}

static inline void run_rows(plan *l, const program *p, int pos0, int n, int first, float *logits)
{
    rows r;
    rig_plan_step(l, rows_of(&r, p, pos0, n, first));
    if (logits) memcpy(logits, plan_result(l, ENTRY_HEAD), (size_t)(n * p->vocab) * sizeof *logits);
}

/* ---- pages */

/* Moves page k of each group to page k + 1 of another device. */
static inline void move_pages(const segment *from, const segment *to, dtype kv)
{
    static uint8_t bytes[1 << 16], again[1 << 16];
    err e = {0};
    for (uint32_t g = 0; g < from->p->n_group; g++)
        for (int k = (int)g; k < (int)g + CAP; k++) {
            uint64_t n = 0;
            for (uint32_t i = 0; i < from->p->n_state; i++)
                if (from->p->states[i].group == g) n += kv_page_bytes(&from->p->states[i], kv, kv);
            assert_true(n > 0 && n < sizeof bytes);
            assert_ok(from->be->page_get(from->on, (int)g, k, bytes, &e), &e);
            assert_ok(to->be->page_put(to->on, (int)g, k + 1, bytes, &e), &e);
            assert_ok(to->be->page_get(to->on, (int)g, k + 1, again, &e), &e);
            assert_memory_equal(bytes, again, n);
        }
}

/* A text of which 110 rows are read on one device and the others on the same or the other one, by the bits. */
static inline void pages_move(const char *other, backend_use more, int kv_host)
{
    static const dtype kinds[] = {DTYPE_F32, DTYPE_F16, DTYPE_I16, DTYPE_Q8_B64, DTYPE_Q4_B32};
    const char *const names[] = {"cpu", other};
    static float want[ROWS * 61], got[ROWS * 61];
    program *p = random_model(&windows, 5);
    for (int k = 0; k < 5; k += kv_host ? 3 : 1)
        for (int way = 0; way < 4; way++) {
            plan *a = open_at(p, names[way % 2], kinds[k], 1, more, kv_host),
                 *b = open_at(p, names[way / 2], kinds[k], 1, more, kv_host);
            run_rows(a, p, 0, 60, 0, NULL);
            run_rows(a, p, 60, 50, 0, NULL);
            move_pages(plan_segment(a, 0), plan_segment(b, 0), kinds[k]);
            run_rows(a, p, 110, 40, 0, want);
            run_rows(b, p, 110, 40, 1, got);
            assert_memory_equal(want, got, (size_t)(40 * p->vocab) * sizeof *want);
            plan_close(a);
            plan_close(b);
        }
    program_free(p);
}

/* ---- several streams */

/* Two streams that each layer adds to from the other: both live at every border. */
static inline program *two_streams(void)
{
    err e = {0};
    test_random_state = 3;
    model_builder b = {.p = program_new(&e), .m = &windows, .layer = -1};
    program *p = b.p;
    const int dim = windows.dim;
    p->hidden = arena_array(&p->mem, (size_t)windows.layers + 1, sizeof *p->hidden);
    p->dim = dim;
    p->vocab = windows.vocab;
    p->n_layer = windows.layers;
    ref x = test_op(&b, (op){.kind = OP_EMBED, .in = {test_weight(&b, "embed", p->vocab, dim, false, 0, 1)}}, AXIS_TOK,
                    dim);
    ref y = test_linear(&b, x, dim, dim, AXIS_TOK);
    p->hidden[0] = x;
    for (b.layer = 0; b.layer < windows.layers; b.layer++) {
        x = test_sum(&b, x, test_linear(&b, test_norm(&b, y, dim, dim, AXIS_TOK), dim, dim, AXIS_TOK));
        y = test_sum(&b, y, test_linear(&b, test_norm(&b, x, dim, dim, AXIS_TOK), dim, dim, AXIS_TOK));
        p->hidden[b.layer + 1] = x;
    }
    b.layer = -1;
    p->entries[ENTRY_DEC].op1 = p->entries[ENTRY_HEAD].op0 = p->n_op;
    x = test_op(&b, (op){.kind = OP_TAKE_OUT, .in = {test_sum(&b, x, y)}}, AXIS_OUT, dim);
    p->entries[ENTRY_HEAD].out = test_linear(&b, x, dim, p->vocab, AXIS_OUT);
    p->entries[ENTRY_HEAD].op1 = p->n_op;
    assert_ok(program_finish(p, &e), &e);
    return p;
}

/* n lists of devices. */
static inline void streams_cross(const char *const *devices, int n, backend_use more)
{
    static float want[ROWS * 61], got[ROWS * 61];
    program *p = two_streams();
    plan *l = open_on(p, "cpu", DTYPE_F32, 1, more);
    run_rows(l, p, 0, 30, 0, want);
    plan_close(l);
    for (int k = 0; k < 2 * n; k++) {
        l = open_on(p, devices[k / 2], DTYPE_F32, k % 2 ? 4 : 1, more);
        assert_int_equal(plan_segment(l, 0)->n_out, 2);
        assert_int_equal(plan_segment(l, 1)->n_in, 2);
        run_rows(l, p, 0, 30, 0, got);
        assert_memory_equal(want, got, (size_t)(30 * p->vocab) * sizeof *want);
        plan_close(l);
    }
    program_free(p);
}

/* ---- plans of one program at the same time */

typedef struct runner {
    plan *l;
    const program *p;
    float *logits;
} runner;

static inline void *run_steps(void *of)
{
    const runner *r = of;
    for (int i = 0; i < 120; i += 8) run_rows(r->l, r->p, i, 8, 0, r->logits + i * r->p->vocab);
    return NULL;
}

static inline void plans_at_once(const char *const devices[3], backend_use more)
{
    static float logits[3][120 * 61];
    program *p = random_model(&windows, 5);
    pthread_t thread[3];
    runner r[3];
    for (int i = 0; i < 3; i++) r[i] = (runner){open_on(p, devices[i], DTYPE_F16, 2, more), p, logits[i]};
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, run_steps, &r[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) plan_close(r[i].l);
    for (int i = 1; i < 3; i++) assert_memory_equal(logits[0], logits[i], sizeof logits[0]);
    program_free(p);
}
