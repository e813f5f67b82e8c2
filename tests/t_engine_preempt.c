/* t_engine_preempt.c - who runs when places and pages are short: texts give their pages up and are computed again to
 * the same tokens, beams too, on several devices with several steps under way; priorities, and turns of owners and
 * requests. */
#include "text_rig.h"

enum { CTX = 400, TOKENS = 220, TEXTS = 24 };

/* Windows, or (taps) slots besides pages. */
static engine *open_engine(engine_options o, int taps)
{
    model_shape of = text_shape(CTX);
    of.taps = taps;
    return text_engine(rig_model(&of, 7, CTX), o);
}

/* Text k, with parameters of its own; the sixth of each is a search with beams. */
static void make_own(text *t, int k, int n, int most)
{
    text_make(t, k, 0, n, most);
    t->q.sample = (sample_params){.temperature = k % 2 ? 0.9 : 0, .top_p = 0.9, .repetition_penalty = 1.1, .seed = k};
    t->q.beams = k % 6 == 5 ? 3 : 1;
}

static const text_way ways[] = {{NULL, 0, 0, 64},
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
        assert_true(left < g->kv.pages[i].total);
        g->kv.pages[i].total = g->kv.pages[i].n_free = (int32_t)left;
    }
}

static void run_short(int taps)
{
    static text alone[TEXTS], got[TEXTS];
    uint64_t tokens = 0;
    for (int k = 0; k < TEXTS; k++) {
        make_own(&alone[k], k, 5 + 4 * k, TOKENS - 5 * k);
        engine *g = open_engine((engine_options){.max_batch = 4}, taps);
        text_add(g, &alone[k]);
        text_run(g);
        assert_int_equal(alone[k].n, alone[k].q.max_tokens);
        engine_close(g);
        tokens += alone[k].q.n_ids + (uint64_t)alone[k].q.max_tokens * (uint64_t)alone[k].q.beams;
    }
    for (int w = 0; w < WAYS; w += taps ? 3 : 1)
        for (int hopes = 0; hopes < 2; hopes++) { /* whether it hopes for short texts, in vain */
            engine *g = open_engine(text_way_options(&ways[w]), taps);
            engine_stats st;
            for (int k = 0; k < TEXTS; k++) make_own(&got[k], k, (int)alone[k].q.n_ids, (int)alone[k].q.max_tokens);
            cut_pages(g, got, TEXTS, 0.25);
            for (int k = 0; k < TEXTS; k++) text_add(g, &got[k]);
            if (hopes) g->used_room = 0;
            int steps = 0;
            for (bool more = true; more; steps++) {
                err e = {0};
                assert_ok(engine_infer(g, &more, &e), &e);
                assert_true(steps < TEXT_STEPS);
                if (hopes) g->used_room = 0;
            }
            for (int k = 0; k < TEXTS; k++) text_same(&alone[k], &got[k]);
            engine_get_stats(g, &st);
            if (hopes && ways[w].max_batch == 64) assert_true(st.preemptions > 0 && st.recomputed_tokens > 0);
            if (!hopes) assert_true(st.recomputed_tokens <= tokens / 5);
            text_all_given_back(g);
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
        make_own(&many[k], 6 * k, 10, 20);
        many[k].order = &order;
        many[k].q.owner = 7, many[k].q.request = 1;
        text_add(g, &many[k]);
    }
    for (int i = 0; i < 5; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(order, 4);
    for (int k = 0; k < 3; k++) {
        make_own(&late[k], 6 * k + 300, 10, 20);
        late[k].order = &order;
        late[k].q.owner = k == 0 ? 7 : 8;
        late[k].q.request = (uint64_t)k + 2;
    }
    text_add(g, &late[0]);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(late[0].first, 4);
    text_add(g, &late[1]);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(late[1].first, 5);
    late[2].q.priority = -1;
    text_add(g, &late[2]);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(late[2].first, 6);
    text_run(g);
    for (int k = 0; k < MANY; k++) assert_int_equal(many[k].n, 20);
    assert_int_equal(order, MANY + 3);
    text_all_given_back(g);
    engine_close(g);
}

static void make_search(text *t, int k)
{
    make_own(t, 6 * k + 5, 10 + 7 * k, 20);
    t->q.beams = k == 2 ? 1 : 2 + (k & 1);
}

/* Searches with about as many beams as there are places, of one owner and of several owners, run one after another: no
 * two of them replace each other without end. */
static void searches_fill_all_places(void **unused)
{
    (void)unused;
    enum { ALL = 6 };
    static text alone[ALL], got[ALL];
    for (int k = 0; k < ALL; k++) {
        make_search(&alone[k], k);
        text_run_alone(open_engine((engine_options){.max_batch = 4}, 0), &alone[k]);
    }
    for (int places = 3; places < 6; places++)
        for (int owners = 1; owners < 4; owners++) {
            engine *g = open_engine((engine_options){.max_batch = places}, 0);
            for (int k = 0; k < ALL; k++) {
                make_search(&got[k], k);
                got[k].q.owner = (uint64_t)(k % owners);
                got[k].q.request = (uint64_t)k;
                text_add(g, &got[k]);
            }
            text_run(g);
            for (int k = 0; k < ALL; k++) text_same(&alone[k], &got[k]);
            text_all_given_back(g);
            engine_close(g);
        }
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
        if (!g->prog->group_window[i])
            g->kv.pages[i].total = g->kv.pages[i].n_free = 26; /* of 37 that all have in the end */
    for (int k = 0; k < ALL; k++) {
        make_own(&all[k], 6 * k, 10, k < LONG ? TOKENS + 160 : 100);
        all[k].order = &order;
        text_add(g, &all[k]);
    }
    for (int i = 0; i < 30; i++) assert_ok(engine_infer(g, &more, &e), &e);
    assert_int_equal(order, ALL);
    text_run(g);
    engine_get_stats(g, &st);
    assert_int_equal(st.preemptions, 0);
    text_all_given_back(g);
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
            make_own(&busy[k], 6 * k, 5, TOKENS);
            text_add(g, &busy[k]);
        }
        for (int i = 0; i < 10 && mixed; i++) assert_ok(engine_infer(g, &more, &e), &e);
        for (int k = 0; k < 6; k++) {
            make_own(&longs[k], 6 * k + 60, 390, 5);
            text_add(g, &longs[k]);
        }
        assert_ok(engine_infer(g, &more, &e), &e);
        make_own(&shorts[mixed], 600, 2, 5);
        text_add(g, &shorts[mixed]);
        for (int i = 0; i < 5; i++) assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(shorts[mixed].n > 0 && longs[5].n == 0);
        text_run(g);
        for (int k = 0; k < 6; k++) assert_int_equal(longs[k].n, 5);
        engine_close(g);
    }
    assert_memory_equal(shorts[0].token, shorts[1].token, sizeof shorts[0].token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_of_pages),
                                       cmocka_unit_test(short_of_pages_with_slots),
                                       cmocka_unit_test(turns_are_taken),
                                       cmocka_unit_test(searches_fill_all_places),
                                       cmocka_unit_test(short_texts_run_beside_long_ones),
                                       cmocka_unit_test(short_prompts_overtake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
