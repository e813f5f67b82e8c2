/* text_rig.h - for tests of what the engine does with many texts: a small random model, queries that keep what they are
 * given, steps until all have ended, and whether everything was given back then. */
#pragma once
#include "engine/engine_state.h"
#include "fake/fake_backend.h"
#include "model_rig.h"

#include "base/rng.h"

enum { TEXT_CTX = 1280, TEXT_VOCAB = 61, TEXT_STEPS = 20000 };

typedef struct text {
    int32_t ids[TEXT_CTX], token[TEXT_CTX];
    float logprob[TEXT_CTX];
    query q;
    uint64_t id;
    int n, ends, *order; /* order: of first tokens, counted by all; NULL: nobody does */
    int first;
    bool may_fail;
    int64_t cached;
    float score;
    finish_reason finish;
} text;

/* How an engine is opened. */
typedef struct text_way {
    const char *devices;
    int in_flight, chunk, max_batch;
} text_way;

static inline engine_options text_way_options(const text_way *w)
{
    return (engine_options){
        .devices = w->devices, .choices.in_flight = w->in_flight, .chunk = w->chunk, .max_batch = w->max_batch};
}

/* Layers in windows and others; tests change what they need otherwise. */
static inline model_shape text_shape(int ctx)
{
    return (model_shape){.layers = 3,
                         .dim = 32,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 10,
                         .ffn = 40,
                         .vocab = TEXT_VOCAB,
                         .ctx = ctx,
                         .window = 70,
                         .rope_dims = 10,
                         .gated = true,
                         .type = DTYPE_F32};
}

/* Also on slow devices "fake", unless o names other backends. */
static inline engine *text_engine(model *m, engine_options o)
{
    static const fake_options fake_of_each = {.delay = 20};
    static const backend_use backends[] = {{&fake_backend, &fake_of_each}, {0}};
    err e = {0};
    engine *g;
    o.threads = 1;
    o.kv = "f32";
    if (!o.more_backends) o.more_backends = backends;
    assert_ok(engine_of_model(&g, m, rig_model_drop, &o, &e), &e);
    return g;
}

static inline bool text_on_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    assert_int_equal(t->ends, 0);
    if (ev->error && !t->may_fail) fail_msg("%s", ev->error);
    if (ev->index >= 0) t->cached = ev->cached_tokens;
    if (ev->token >= 0 && ev->index >= 0) t->logprob[t->n] = ev->logprob, t->token[t->n++] = ev->token;
    if (t->n == 1 && t->order) t->first = (*t->order)++;
    t->ends = ev->finish != FINISH_NONE;
    t->finish = ev->finish;
    t->score = ev->score;
    return true;
}

/* Text k: `common` ids that all have, then its own up to n. Every other one is drawn, those between are greedy. */
static inline void text_make(text *t, int k, int common, int n, int most)
{
    *t = (text){.n = 0};
    for (int i = 0; i < n; i++)
        t->ids[i] = (int32_t)(rng_bits(3, i < common ? 0 : (uint64_t)k + 1, (uint64_t)i) % TEXT_VOCAB);
    t->q = (query){.ids = t->ids,
                   .n_ids = (size_t)n,
                   .max_tokens = most,
                   .ignore_eos = true,
                   .sample = {.temperature = k % 2 ? 0.9 : 0,
                              .top_p = 0.9,
                              .repetition_penalty = 1.1,
                              .typical_p = 1,
                              .tfs_z = 1,
                              .fsd_n = 1,
                              .seed = k},
                   .beams = 1,
                   .length_penalty = 1,
                   .n_logprobs = -1,
                   .on_token = text_on_token,
                   .ctx = t};
}

static inline void text_add(engine *g, text *t)
{
    err e = {0};
    assert_ok(engine_add_query(g, &t->q, &t->id, &e), &e);
}

/* Until no work is left. */
static inline void text_run(engine *g)
{
    err e = {0};
    int steps = 0;
    for (bool more = true; more; steps++) {
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < TEXT_STEPS);
    }
}

/* What a text is alone in an engine, which is closed. */
static inline void text_run_alone(engine *g, text *t)
{
    text_add(g, t);
    text_run(g);
    assert_int_equal(t->cached, 0);
    engine_close(g);
}

static inline void text_same(const text *a, const text *b)
{
    assert_int_equal(b->ends, 1);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->token, b->token, sizeof a->token);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_true(a->score == b->score);
}

/* As if there was memory for n slots. Before the first query. */
static inline void text_limit_slots(engine *g, int32_t n)
{
    page_pool *p = &g->kv.slots;
    p->total = p->n_free = n;
    for (int32_t i = 0; i < n; i++) p->free_pages[i] = n - 1 - i;
}

/* Nobody holds pages, slots or turns; drops what is kept, and then all names are free. */
static inline void text_all_given_back(engine *g)
{
    engine_stats st;
    engine_get_stats(g, &st);
    assert_true(st.kv_usage == 0 && st.pages_used == 0 && st.running == 0 && st.waiting == 0);
    assert_true(g->preemptions == st.preemptions);
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        assert_int_equal(g->kv.pages[i].n_free + g->kv.pages[i].n_kept, g->kv.pages[i].total);
    assert_int_equal(g->kv.slots.n_free + g->kv.slots.n_kept, g->kv.slots.total);
    for (int i = 0; i < SHARE_COUNTS; i++) assert_true(g->shares.owner[i] == 0 && g->shares.request[i] == 0);
    for (int32_t i = 0; i < g->kv.tree.n; i++) assert_null(g->kv.tree.node[i].owner);
    tree_clear(&g->kv.tree);
    assert_int_equal(g->kv.slots.n_free, g->kv.slots.total);
    int unused = 0;
    for (int32_t i = g->kv.tree.free; i >= 0; i = g->kv.tree.node[i].next) unused++;
    assert_int_equal(unused, g->kv.tree.n);
}
