/* t_cache_prefix.c - texts that begin alike share pages: what each query gives is what it gives alone in a fresh
 * engine, and what it is said to have found is what was not computed; one after another, at once, when the one that
 * computes leaves, under windows, on several devices with several steps under way, when pages run short. */
#include "text_rig.h"

enum { CTX = 400, TOKENS = 40, QUERIES = 12, COMMON = 200 };

static engine *open_engine(engine_options o, bool by_length)
{
    const model_shape of = text_shape(CTX);
    model *m = rig_model(&of, 7, CTX);
    if (by_length)
        m->prog->ropes[0].params = (rope_params){
            .scaling = ROPE_DYNAMIC, .dims = 10, .theta = 500, .factor = 2, .max_positions = 50, .truncate = true};
    return text_engine(m, o);
}

/* What each text is in an engine that knows nothing else. */
static void run_alone(text *t, bool by_length) { text_run_alone(open_engine((engine_options){0}, by_length), t); }

static const text_way ways[] = {{NULL, 0, 0, 16},
                                {NULL, 0, 24, 3},
                                {"cpu:1;cpu:1", 0, 100, 16},
                                {"cpu:1&cpu:1", 2, 64, 16},
                                {"cpu&fake;fake", 4, 50, 16},
                                {"fake;fake", 5, 7, 5}};
enum { WAYS = sizeof ways / sizeof *ways };

/* max_batch 0: that of the way. */
static engine *open_way(int i, bool by_length, int max_batch)
{
    engine_options o = text_way_options(&ways[i]);
    if (max_batch) o.max_batch = max_batch;
    return open_engine(o, by_length);
}

/* Texts one after another, then again, and all at once: the same tokens; every page that was there is found. There are
 * pages for all. */
static void equal_texts(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[QUERIES];
    for (int by_length = 0; by_length < 2; by_length++) {
        for (int k = 0; k < QUERIES; k++) {
            text_make(&alone[k], k, COMMON, COMMON + 3 + 13 * k, k % 3 ? 20 : TOKENS);
            run_alone(&alone[k], by_length);
        }
        for (int w = 0; w < WAYS; w++) {
            engine *g = open_way(w, by_length, 32);
            engine_stats st;
            for (int turn = 0; turn < 3; turn++)
                for (int k = 0; k < QUERIES; k++) {
                    got[k] = alone[k];
                    got[k].n = got[k].ends = 0;
                    got[k].q.ctx = &got[k];
                    got[k].q.ids = got[k].ids;
                    text_add(g, &got[k]);
                    if (turn < 2) text_run(g);
                    if (turn == 2 && k < QUERIES - 1) continue;
                    text_run(g);
                    for (int i = turn < 2 ? k : 0; i <= k; i++) {
                        const int64_t whole = ((int64_t)got[i].q.n_ids - 1) / PAGE_TOKENS * PAGE_TOKENS;
                        text_same(&alone[i], &got[i]);
                        if (by_length) assert_int_equal(got[i].cached, turn ? whole : 0);
                        else assert_int_equal(got[i].cached, turn ? whole : i ? COMMON / PAGE_TOKENS * PAGE_TOKENS : 0);
                    }
                }
            engine_get_stats(g, &st);
            uint64_t all = 0, cached = 0;
            for (int k = 0; k < QUERIES; k++) {
                const uint64_t n = alone[k].q.n_ids, whole = (n - 1) / PAGE_TOKENS * PAGE_TOKENS;
                all += 3 * n;
                cached += 2 * whole + (by_length || !k ? 0 : COMMON / PAGE_TOKENS * PAGE_TOKENS);
            }
            assert_int_equal(st.prompt_tokens, all);
            assert_int_equal(st.cached_tokens, cached);
            assert_true(st.sought_tokens == all && st.found_tokens == cached && st.recomputed_tokens == 0);
            text_all_given_back(g);
            engine_close(g);
        }
    }
}

/* All at once, from nothing: the first computes what is common, the others wait for its pages. */
static void at_once(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[QUERIES];
    for (int k = 0; k < QUERIES; k++) {
        text_make(&alone[k], k, COMMON, COMMON + 32, 20);
        run_alone(&alone[k], false);
    }
    for (int w = 0; w < WAYS; w++)
        for (int leaves = 0; leaves < 2; leaves++) {
            engine *g = open_way(w, false, 0);
            err e = {0};
            bool more;
            int64_t cached = 0;
            for (int k = 0; k < QUERIES; k++) {
                text_make(&got[k], k, COMMON, COMMON + 32, 20);
                text_add(g, &got[k]);
            }
            if (leaves) { /* when it has begun */
                for (int i = 0; i < 2; i++) assert_ok(engine_infer(g, &more, &e), &e);
                if (w == 1) engine_pause(g, got[0].id, true);
                else engine_cancel(g, got[0].id);
                text_run(g);
                engine_pause(g, got[0].id, false);
            }
            text_run(g);
            for (int k = 0; k < QUERIES; k++) {
                if (got[k].finish == FINISH_CANCELLED) continue;
                text_same(&alone[k], &got[k]);
                cached += got[k].cached;
            }
            if (!leaves) assert_int_equal(cached, (QUERIES - 1) * (COMMON / PAGE_TOKENS * PAGE_TOKENS));
            text_all_given_back(g);
            engine_close(g);
        }
}

/* Choices of one prompt: it is read and counted once, all have their first token at once, and each text is what it is
 * alone; also when the first one leaves, and when there are too few places. */
static void choices(void **unused)
{
    (void)unused;
    enum { CHOICES = 6, PROMPT = 150 };
    static text alone[CHOICES], got[CHOICES];
    for (int greedy = 0; greedy < 2; greedy++) {
        for (int k = 0; k < CHOICES; k++) {
            text_make(&alone[k], 1, 0, PROMPT, 30);
            alone[k].q.sample.choice = k;
            alone[k].q.sample.temperature = greedy ? 0 : 1.2;
            alone[k].q.sample.repetition_penalty = 1;
            alone[k].q.n_logprobs = greedy ? -1 : 3;
            run_alone(&alone[k], true);
        }
        for (int w = 0; w < WAYS; w++)
            for (int leaves = 0; leaves < 2; leaves++) {
                engine *g = open_way(w, true, 0);
                err e = {0};
                bool more;
                engine_stats st;
                for (int k = 0; k < CHOICES; k++) {
                    got[k] = alone[k];
                    got[k].n = got[k].ends = 0;
                    got[k].q.ctx = &got[k];
                    got[k].q.ids = got[k].ids;
                    got[k].q.same_prompt_as = k ? got[0].id : 0;
                    text_add(g, &got[k]);
                }
                if (leaves && w % 2) engine_pause(g, got[0].id, true);
                else if (leaves) engine_cancel(g, got[0].id);
                while (!got[leaves].n) assert_ok(engine_infer(g, &more, &e), &e);
                for (int k = leaves; k < CHOICES && k < leaves + ways[w].max_batch; k++) assert_true(got[k].n > 0);
                text_run(g);
                engine_pause(g, got[0].id, false);
                text_run(g);
                for (int k = leaves; k < CHOICES; k++) text_same(&alone[k], &got[k]);
                engine_get_stats(g, &st);
                const int read = leaves && w % 2 ? 2 : 1; /* the one that stopped is read later, from named pages */
                assert_int_equal(st.prompt_tokens, read * PROMPT);
                text_all_given_back(g);
                engine_close(g);
            }
    }
}

/* Choices of an encoder-decoder: the encoder runs once for all. */
static void choices_of_an_encoder(void **unused)
{
    (void)unused;
    enum { CHOICES = 4, INPUT = 70 };
    static text alone[CHOICES], got[CHOICES];
    static int32_t input[INPUT];
    for (int i = 0; i < INPUT; i++) input[i] = 3 + i % 40;
    for (int turn = 0; turn < 2; turn++) {
        err e = {0};
        engine *g;
        engine_stats st;
        const engine_options o = {.model = "tests/vectors/models/t5", .kv = "f32", .ctx = 96, .threads = 1};
        assert_ok(engine_open(&g, &o, &e), &e);
        text *t = turn ? got : alone;
        for (int k = 0; k < CHOICES; k++) {
            text_make(&t[k], 1, 0, 1, 20);
            t[k].ids[0] = 0;
            t[k].q.enc_ids = input;
            t[k].q.n_enc = INPUT;
            t[k].q.sample = (sample_params){.temperature = 1.2, .top_p = 1, .repetition_penalty = 1, .choice = k};
            t[k].q.same_prompt_as = turn && k ? t[0].id : 0;
            text_add(g, &t[k]);
            if (!turn) text_run(g);
        }
        text_run(g);
        for (int k = 0; k < CHOICES && turn; k++) text_same(&alone[k], &got[k]);
        engine_get_stats(g, &st);
        assert_int_equal(st.encoder_runs, turn ? 1 : CHOICES);
        text_all_given_back(g);
        engine_close(g);
    }
}

/* Salts keep texts apart, queries that score their prompt compute it, and those for measurements share nothing. */
static void kept_apart(void **unused)
{
    (void)unused;
    static const uint8_t salts[2][SALT_BYTES] = {{1}, {[SALT_BYTES - 1] = 2}};
    static text t;
    engine *g = open_engine((engine_options){0}, false);
    const int64_t whole = 192;
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < 3; k++) {
            text_make(&t, 0, COMMON, COMMON, 5);
            t.q.salt = k ? salts[k - 1] : NULL;
            text_add(g, &t);
            text_run(g);
            assert_int_equal(t.cached, turn ? whole : 0);
        }
    engine_stats st;
    engine_get_stats(g, &st);
    text_make(&t, 0, COMMON, COMMON, 5);
    t.q.prompt_logprobs = true;
    t.q.n_logprobs = 0;
    text_add(g, &t);
    text_run(g);
    assert_true(t.n == 5 && t.cached == 0);
    text_make(&t, 0, COMMON, COMMON, 5);
    t.q.unshared = true;
    text_add(g, &t);
    text_run(g);
    assert_true(t.n == 5 && t.cached == 0);
    engine_stats now;
    engine_get_stats(g, &now);
    assert_true(now.sought_tokens == st.sought_tokens && now.prompt_tokens == st.prompt_tokens + 2 * COMMON);
    text_make(&t, 0, COMMON, COMMON, 5);
    text_add(g, &t);
    text_run(g);
    assert_int_equal(t.cached, whole);
    text_all_given_back(g);
    engine_close(g);
}

/* A long text goes on: what it has generated is found too, by the pages of the window and all the others. */
static void goes_on(void **unused)
{
    (void)unused;
    static text first, next, alone;
    engine *g = open_engine((engine_options){0}, false);
    text_make(&first, 1, 0, 300, TOKENS);
    text_add(g, &first);
    text_run(g);
    text_make(&next, 1, 0, 300, TOKENS);
    memcpy(next.ids + 300, first.token, TOKENS * sizeof *first.token);
    next.q.n_ids = 300 + TOKENS;
    alone = next;
    alone.q.ids = alone.ids;
    alone.q.ctx = &alone;
    text_add(g, &next);
    text_run(g);
    assert_int_equal(next.cached, 320);
    run_alone(&alone, false);
    text_same(&alone, &next);
    text_all_given_back(g);
    engine_close(g);
}

/* Pages for two texts: those that are kept make room, and no text is changed. */
static void short_of_pages(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[3 * QUERIES];
    for (int k = 0; k < QUERIES; k++) {
        text_make(&alone[k], k, 70 * (k % 3), 100 + 20 * (k % 7), TOKENS);
        run_alone(&alone[k], false);
    }
    for (int w = 0; w < WAYS; w++) {
        engine *g = open_way(w, false, 0);
        for (uint32_t i = 0; i < g->prog->n_group; i++) {
            const int32_t n = pages_needed(CTX, g->prog->group_window[i], g->chunk * g->steps.in_flight) + 2;
            g->kv.pages[i].total = g->kv.pages[i].n_free = n;
        }
        g->kv.tree.cap = 24; /* names are short too */
        for (int k = 0; k < 3 * QUERIES; k++) {
            const int of = (int)(rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES);
            text_make(&got[k], of, 70 * (of % 3), 100 + 20 * (of % 7), TOKENS);
            got[k].q.sample = alone[of].q.sample;
            text_add(g, &got[k]);
            if (k % 5 == 4) text_run(g);
        }
        text_run(g);
        for (int k = 0; k < 3 * QUERIES; k++)
            text_same(&alone[rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES], &got[k]);
        text_all_given_back(g);
        engine_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_texts),   cmocka_unit_test(at_once),
                                       cmocka_unit_test(choices),       cmocka_unit_test(choices_of_an_encoder),
                                       cmocka_unit_test(kept_apart),    cmocka_unit_test(goes_on),
                                       cmocka_unit_test(short_of_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
