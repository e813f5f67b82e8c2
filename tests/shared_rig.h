/* shared_rig.h - for tests: two plans over one set of weights, which have steps at the same time. */
#pragma once
#include "random_model.h"

#include <pthread.h>

enum { SHARED_ROWS = 48, SHARED_PAGES = 4, SHARED_STEPS = 24, SHARED_VOCAB = 61 };

/* Weights that are repacked, so that they take memory. */
static const model_shape shared_shape = {.layers = 3,
                                         .dim = 64,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 16,
                                         .ffn = 96,
                                         .vocab = SHARED_VOCAB,
                                         .ctx = 256,
                                         .taps = 3,
                                         .rope_dims = 16,
                                         .gated = true,
                                         .type = DTYPE_Q8_0};

/* A text, whose pages of each group are 0, 1, …; and the logits of all its rows. */
typedef struct shared_text {
    plan *l;
    int seed, prompt, n, steps; /* n: rows done */
    float logits[(SHARED_ROWS + SHARED_STEPS) * SHARED_VOCAB];
    int rc; /* of shared_run */
    err why;
} shared_text;

/* Its next n rows. */
static inline int shared_step(shared_text *t, int n, err *e)
{
    int32_t token[SHARED_ROWS], pos[SHARED_ROWS], seq[SHARED_ROWS] = {0}, out[SHARED_ROWS];
    int32_t page[GROUP_MAX * SHARED_PAGES];
    const int32_t len = t->n + n, row[2] = {0, n}, variant[8] = {0}, write = t->steps % 2, read = !write;
    for (int i = 0; i < n; i++) {
        token[i] = (t->seed * (t->n + i) + 3) % SHARED_VOCAB;
        pos[i] = t->n + i;
        out[i] = i;
    }
    for (int i = 0; i < GROUP_MAX * SHARED_PAGES; i++) page[i] = i % SHARED_PAGES;
    step st = {.tok = {token, NULL, pos, seq, &len, row},
               .out = out,
               .n_seq = 1,
               .seq_rope = variant,
               .slot_read = &read,
               .slot_write = &write,
               .page = page,
               .page_cap = SHARED_PAGES};
    st.n[AXIS_TOK] = st.n[AXIS_OUT] = n;
    plan_send(t->l, &st);
    const int rc = plan_collect(t->l, e);
    if (rc) return rc;
    memcpy(t->logits + t->n * SHARED_VOCAB, plan_result(t->l, ENTRY_HEAD),
           (size_t)(n * SHARED_VOCAB) * sizeof *t->logits);
    t->n += n;
    t->steps++;
    return OK;
}

/* All its rows: the prompt, then one after the other. */
static inline void *shared_run(void *of)
{
    shared_text *t = of;
    t->n = t->steps = 0;
    t->rc = shared_step(t, t->prompt, &t->why);
    for (int i = 0; i < SHARED_STEPS && !t->rc; i++) t->rc = shared_step(t, 1, &t->why);
    return NULL;
}

/* Runs texts at once, and compares them with what they give on plans of their own. */
static inline void shared_compare(shared_text *t, const shared_text *want, int n, const char *devices)
{
    pthread_t thread[4];
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&thread[i], NULL, shared_run, &t[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n; i++) {
        assert_ok(t[i].rc, &t[i].why);
        if (memcmp(t[i].logits, want[i].logits, (size_t)(t[i].n * SHARED_VOCAB) * sizeof(float)))
            fail_msg("%s: text %d has other logits", devices, i);
    }
}

/* Two plans over the weights of a third, which is never made ready, and is closed before they have steps: texts at
 * once, then one of them alone. Other numbers of rows, and of steps in flight. */
static inline void shared_texts(const char *devices, const backend_use *list)
{
    static shared_text want[2], got[2];
    program *p = random_model(&shared_shape, 4);
    err e = {0};
    for (int last = 0; last < 2; last++) {
        plan_case c[2];
        plan *holder;
        for (int i = 0; i < 2; i++) {
            c[i] = (plan_case){.devices = devices,
                               .backends = list,
                               .rows = SHARED_ROWS - 8 * i,
                               .pages = SHARED_PAGES,
                               .in_flight = 1 + (i ^ last)};
            want[i] = got[i] = (shared_text){.seed = 5 + 6 * i, .prompt = 40 - 9 * i};
            want[i].l = rig_plan(p, c[i]);
            shared_run(&want[i]);
            assert_ok(want[i].rc, &want[i].why);
            plan_close(want[i].l);
        }
        assert_ok(rig_plan_place(&holder, p, &c[0], &e), &e);
        for (int i = 0; i < 2; i++) {
            c[i].shares = i ? got[0].l : holder;
            got[i].l = rig_plan(p, c[i]);
        }
        plan_close(holder);
        shared_compare(got, want, 2, devices);
        plan_close(got[!last].l);
        shared_compare(&got[last], &want[last], 1, devices);
        plan_close(got[last].l);
    }
    program_free(p);
}
