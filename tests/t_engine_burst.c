/* t_engine_burst.c - requests that arrive together: all have their first token before one has its last, however short
 * their texts are; a short one that comes while long prompts are read does not wait for these. */
#include "engine/engine_state.h"
#include "model_rig.h"

#include "base/rng.h"

enum { CTX = 2000, VOCAB = 61, CROWD = 200 };

static engine *open_engine(void)
{
    err e = {0};
    engine *g;
    const model_shape of = {.layers = 2,
                            .dim = 32,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 10,
                            .ffn = 40,
                            .vocab = VOCAB,
                            .ctx = CTX,
                            .rope_dims = 10,
                            .gated = true,
                            .type = DTYPE_F32};
    const engine_options o = {.devices = "cpu", .threads = 1, .max_batch = 256, .kv = "f32"};
    assert_ok(engine_of_model(&g, rig_model(&of, 7, CTX), rig_model_drop, &o, &e), &e);
    return g;
}

typedef struct text {
    int32_t ids[CTX];
    int n, first, last; /* tokens; when they came, counted by *now */
    int *now;
} text;

static bool on_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    if (t->n++ == 0) t->first = *t->now;
    if (ev->finish != FINISH_NONE) t->last = *t->now;
    ++*t->now;
    return true;
}

static void add(engine *g, text *t, int *now, int k, int n, int most)
{
    err e = {0};
    *t = (text){.now = now};
    for (int i = 0; i < n; i++) t->ids[i] = (int32_t)(rng_bits(5, (uint64_t)k, (uint64_t)i) % VOCAB);
    const query q = {.ids = t->ids,
                     .n_ids = (size_t)n,
                     .max_tokens = most,
                     .ignore_eos = true,
                     .sample = {.temperature = k % 2 ? 0.9 : 0, .seed = (uint64_t)k},
                     .beams = 1,
                     .n_logprobs = -1,
                     .on_token = on_token,
                     .ctx = t};
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
}

static int run_engine(engine *g, const text *until)
{
    err e = {0};
    int steps = 0;
    for (bool more = true; more && !(until && until->n); steps++) {
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < 20000);
    }
    return steps;
}

/* A step's time is known before. */
static void learn(engine *g)
{
    static text t;
    int now = 0;
    for (int k = 0; k < 4; k++) {
        add(g, &t, &now, 1000 + k, 500, 4);
        run_engine(g, NULL);
    }
}

static void all_begin_before_one_ends(void **unused)
{
    (void)unused;
    static text t[CROWD];
    static const int lengths[] = {10, 90, 250};
    engine *g = open_engine();
    learn(g);
    for (int i = 0; i < 3; i++) {
        int now = 0, begun = 0, ended = INT32_MAX;
        for (int k = 0; k < CROWD; k++) add(g, &t[k], &now, k, lengths[i] / 2 + k % lengths[i], 6 + k * 7 % 30);
        run_engine(g, NULL);
        for (int k = 0; k < CROWD; k++) {
            assert_int_equal(t[k].n, 6 + k * 7 % 30);
            if (t[k].first > begun) begun = t[k].first;
            if (t[k].last < ended) ended = t[k].last;
        }
        assert_true(begun + CROWD < ended); /* a step at least between them, for readers that are behind */
    }
    engine_close(g);
}

static void short_ones_do_not_wait_for_long_prompts(void **unused)
{
    (void)unused;
    static text t[7];
    engine *g = open_engine();
    learn(g);
    int now = 0;
    for (int k = 0; k < 6; k++) add(g, &t[k], &now, k, 1900, 4);
    err e = {0};
    bool more;
    assert_ok(engine_infer(g, &more, &e), &e);
    add(g, &t[6], &now, 6, 2, 3);
    assert_true(run_engine(g, &t[6]) <= 5);
    run_engine(g, NULL);
    for (int k = 0; k < 6; k++) assert_true(t[6].last < t[k].last);
    engine_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_begin_before_one_ends),
                                       cmocka_unit_test(short_ones_do_not_wait_for_long_prompts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
