/* t_preempt.c - who runs when places and pages are short: texts give their pages up and are computed again to the same
 * tokens, beams too, on several devices with several steps under way; priorities, and turns of owners and requests. */
#include "engine/engine_state.h"
#include "fake/fake_backend.h"
#include "model_rig.h"

#include "base/rng.h"

enum { CTX = 400, VOCAB = 61, TOKENS = 220, TEXTS = 24 };

static const fake_options fake_of_each = {.delay = 20};
static const backend_use more_backends[] = {{&fake_backend, &fake_of_each}, {0}};

/* Windows, or (taps) slots besides pages. */
static engine *open_engine(engine_options o, int taps)
{
    err e = {0};
    engine *g;
    const model_shape of = {.layers = 3,
                            .dim = 32,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 10,
                            .ffn = 40,
                            .vocab = VOCAB,
                            .ctx = CTX,
                            .window = 70,
                            .taps = taps,
                            .rope_dims = 10,
                            .gated = true,
                            .type = DTYPE_F32};
    o.threads = 1;
    o.kv = "f32";
    o.more_backends = more_backends;
    assert_ok(engine_of_model(&g, rig_model(&of, 7, CTX), rig_model_drop, &o, &e), &e);
    return g;
}

typedef struct text {
    int32_t ids[CTX], token[CTX];
    query q;
    uint64_t id;
    int n, ends, *order; /* order: of first tokens, counted by all */
    int first;
    float score;
    finish_reason finish;
} text;

static bool on_token(void *ctx, const token_event *ev)
{
    text *t = ctx;
    assert_int_equal(t->ends, 0);
    if (ev->token >= 0) t->token[t->n++] = ev->token;
    if (t->n == 1 && t->order) t->first = (*t->order)++;
    t->ends = ev->finish != FINISH_NONE;
    t->finish = ev->finish;
    t->score = ev->score;
    if (ev->error) fail_msg("%s", ev->error);
    return true;
}

static void make_text(text *t, int k, int n, int most)
{
    *t = (text){.n = 0};
    for (int i = 0; i < n; i++) t->ids[i] = (int32_t)(rng_bits(5, (uint64_t)k, (uint64_t)i) % VOCAB);
    t->q = (query){.ids = t->ids,
                   .n_ids = (size_t)n,
                   .max_tokens = most,
                   .ignore_eos = true,
                   .sample = {.temperature = k % 2 ? 0.9 : 0, .top_p = 0.9, .repetition_penalty = 1.1, .seed = k},
                   .beams = k % 6 == 5 ? 3 : 1,
                   .length_penalty = 1,
                   .n_logprobs = -1,
                   .on_token = on_token,
                   .ctx = t};
}

static void add(engine *g, text *t)
{
    err e = {0};
    assert_ok(engine_add_query(g, &t->q, &t->id, &e), &e);
}

static void run_all(engine *g)
{
    err e = {0};
    int steps = 0;
    for (bool more = true; more; steps++) {
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < 20000);
    }
}

static void all_given_back(engine *g)
{
    engine_stats st;
    engine_get_stats(g, &st);
    assert_true(st.kv_usage == 0 && st.running == 0 && st.waiting == 0);
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        assert_int_equal(g->pages[i].n_free + g->pages[i].n_kept, g->pages[i].total);
    assert_int_equal(g->slots.n_free + g->slots.n_kept, g->slots.total);
    for (int i = 0; i < TURN_COUNTS; i++) assert_true(g->turn.owner[i] == 0 && g->turn.request[i] == 0);
}

static const struct {
    const char *devices;
    int in_flight, chunk, max_batch;
} ways[] = {{NULL, 0, 0, 64},
            {NULL, 0, 24, 9},
            {"cpu:1;cpu:1", 0, 100, 64},
            {"cpu:1&cpu:1", 2, 64, 64},
            {"cpu&fake;fake", 4, 50, 64},
            {"fake;fake", 5, 17, 20}};
enum { WAYS = sizeof ways / sizeof *ways };

/* Of a group, pages for `share` of what all texts need at once, but for the largest at least. */
static void cut_pages(engine *g, const text *t, int n, double share)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        int64_t all = 0, most = 0;
        for (int k = 0; k < n; k++) {
            const int64_t length = (int64_t)t[k].q.n_ids + t[k].q.max_tokens,
                          each = pages_needed(length, g->prog->group_window[i], g->chunk * g->steps.in_flight) *
                                 t[k].q.beams;
            all += each;
            if (each > most) most = each;
        }
        int64_t left = (int64_t)(share * (double)all);
        if (left < most + 1) left = most + 1;
        assert_true(left < g->pages[i].total);
        g->pages[i].total = g->pages[i].n_free = (int32_t)left;
    }
}

static void run_short(int taps)
{
    static text alone[TEXTS], got[TEXTS];
    uint64_t tokens = 0;
    for (int k = 0; k < TEXTS; k++) {
        make_text(&alone[k], k, 5 + 4 * k, TOKENS - 5 * k);
        engine *g = open_engine((engine_options){.max_batch = 4}, taps);
        add(g, &alone[k]);
        run_all(g);
        assert_int_equal(alone[k].n, alone[k].q.max_tokens);
        engine_close(g);
        tokens += alone[k].q.n_ids + (uint64_t)alone[k].q.max_tokens * (uint64_t)alone[k].q.beams;
    }
    for (int w = 0; w < WAYS; w += taps ? 3 : 1)
        for (int hopes = 0; hopes < 2; hopes++) { /* whether it hopes for short texts, in vain */
            engine *g = open_engine((engine_options){.devices = ways[w].devices,
                                                     .in_flight = ways[w].in_flight,
                                                     .chunk = ways[w].chunk,
                                                     .max_batch = ways[w].max_batch},
                                    taps);
            engine_stats st;
            for (int k = 0; k < TEXTS; k++) make_text(&got[k], k, (int)alone[k].q.n_ids, (int)alone[k].q.max_tokens);
            cut_pages(g, got, TEXTS, 0.25);
            for (int k = 0; k < TEXTS; k++) add(g, &got[k]);
            if (hopes) g->used_room = 0;
            for (bool more = true; more;) {
                err e = {0};
                assert_ok(engine_infer(g, &more, &e), &e);
                if (hopes) g->used_room = 0;
            }
            for (int k = 0; k < TEXTS; k++) {
                assert_int_equal(got[k].ends, 1);
                assert_int_equal(got[k].n, alone[k].n);
                assert_memory_equal(got[k].token, alone[k].token, sizeof got[k].token);
                assert_true(got[k].score == alone[k].score);
            }
            engine_get_stats(g, &st);
            if (hopes && ways[w].max_batch == 64) assert_true(st.preemptions > 0 && st.recomputed_tokens > 0);
            if (!hopes) assert_true(st.recomputed_tokens <= tokens / 5);
            all_given_back(g);
            engine_close(g);
        }
}

static void short_of_pages(void **unused)
{
    (void)unused;
    run_short(0);
}

static void short_of_pages_with_slots(void **unused)
{
    (void)unused;
    run_short(3);
}

/* One owner's request of forty prompts, another request of his, and another owner: each newcomer has its first token
 * before the second half of the forty, though all places were taken. A lower priority number goes before all. */
static void turns_are_taken(void **unused)
{
    (void)unused;
    enum { MANY = 40 };
    static text many[MANY], late[3];
    int order = 0;
    bool more;
    err e = {0};
    engine *g = open_engine((engine_options){.max_batch = 4}, 0);
    for (int k = 0; k < MANY; k++) {
        make_text(&many[k], 6 * k, 10, 20);
        many[k].order = &order;
        many[k].q.owner = 7, many[k].q.request = 1;
        add(g, &many[k]);
    }
    for (int i = 0; i < 5; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(order, 4);
    for (int k = 0; k < 3; k++) {
        make_text(&late[k], 6 * k + 300, 10, 20);
        late[k].order = &order;
        late[k].q.owner = k == 0 ? 7 : 8;
        late[k].q.request = (uint64_t)k + 2;
    }
    add(g, &late[0]);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(late[0].first, 4);
    add(g, &late[1]);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(late[1].first, 5);
    late[2].q.priority = -1;
    add(g, &late[2]);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(late[2].first, 6);
    run_all(g);
    for (int k = 0; k < MANY; k++) assert_int_equal(many[k].n, 20);
    assert_int_equal(order, MANY + 3);
    all_given_back(g);
    engine_close(g);
}

/* Long texts will need pages that short ones have given back by then: all run at once, and nobody's place is taken. */
static void short_texts_run_beside_long_ones(void **unused)
{
    (void)unused;
    enum { LONG = 3, ALL = 11 };
    static text all[ALL];
    int order = 0;
    bool more;
    err e = {0};
    engine_stats st;
    engine *g = open_engine((engine_options){.max_batch = 64}, 0);
    g->used_room = 1;
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        if (!g->prog->group_window[i]) g->pages[i].total = g->pages[i].n_free = 26; /* of 37 that all have in the end */
    for (int k = 0; k < ALL; k++) {
        make_text(&all[k], 6 * k, 10, k < LONG ? TOKENS + 160 : 100);
        all[k].order = &order;
        add(g, &all[k]);
    }
    for (int i = 0; i < 30; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(order, ALL);
    run_all(g);
    engine_get_stats(g, &st);
    assert_int_equal(st.preemptions, 0);
    all_given_back(g);
    engine_close(g);
}

/* A short prompt behind six long ones has its first token within five steps, also while others generate. */
static void short_prompts_overtake(void **unused)
{
    (void)unused;
    static text shorts[2], longs[6], busy[3];
    bool more;
    err e = {0};
    for (int mixed = 0; mixed < 2; mixed++) {
        engine *g = open_engine((engine_options){.max_batch = 16, .chunk = 32}, 0);
        for (int k = 0; k < 3 && mixed; k++) {
            make_text(&busy[k], 6 * k, 5, TOKENS);
            add(g, &busy[k]);
        }
        for (int i = 0; i < 10 && mixed; i++) assert_ok(engine_infer(g, &more, &e), &e);
        for (int k = 0; k < 6; k++) {
            make_text(&longs[k], 6 * k + 60, 390, 5);
            add(g, &longs[k]);
        }
        assert_ok(engine_infer(g, &more, &e), &e);
        make_text(&shorts[mixed], 600, 2, 5);
        add(g, &shorts[mixed]);
        for (int i = 0; i < 5; i++) assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(shorts[mixed].n > 0 && longs[5].n == 0);
        run_all(g);
        for (int k = 0; k < 6; k++) assert_int_equal(longs[k].n, 5);
        engine_close(g);
    }
    assert_memory_equal(shorts[0].token, shorts[1].token, sizeof shorts[0].token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_of_pages), cmocka_unit_test(short_of_pages_with_slots),
                                       cmocka_unit_test(turns_are_taken),
                                       cmocka_unit_test(short_texts_run_beside_long_ones),
                                       cmocka_unit_test(short_prompts_overtake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
