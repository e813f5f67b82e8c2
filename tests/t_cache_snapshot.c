/* t_cache_snapshot.c - texts of models with states of fixed size share prefixes up to the last snapshot: tokens and
 * log-probabilities are those of a fresh engine, bit for bit, and what was found is what was not computed; with pages
 * besides, with windows, and with slots alone; one after another, at once, when the one that computes leaves, for
 * choices and beams, with guesses, on several devices. */
#include "snapshot_rig.h"

/* One after another: the first 512 of 600 common tokens are found, then the whole stops of each prompt. */
static void one_after_another(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_searched(&alone[k], k, COMMON, COMMON + 3 + 21 * k, TOKENS);
            run_alone(&alone[k], kind);
        }
        for (int w = kind % 2; w < WAYS; w += kind ? 2 : 1) {
            engine *g = open_way(w, kind, NULL);
            engine_stats st;
            uint64_t all = 0, cached = 0;
            for (int turn = 0; turn < 2; turn++)
                for (int k = 0; k < QUERIES; k++) {
                    make_searched(&got[k], k, COMMON, COMMON + 3 + 21 * k, TOKENS);
                    text_add(g, &got[k]);
                    text_run(g);
                    text_same(&alone[k], &got[k]);
                    const int64_t stops = (got[k].q.n_ids - 1) / STOP * STOP;
                    assert_int_equal(got[k].cached, turn ? stops : k ? COMMON / STOP * STOP : 0);
                    all += got[k].q.n_ids;
                    cached += (uint64_t)got[k].cached;
                }
            engine_get_stats(g, &st);
            assert_true(st.prompt_tokens == all && st.cached_tokens == cached && st.recomputed_tokens == 0);
            text_all_given_back(g);
            engine_close(g);
        }
    }
}

/* All at once, from nothing: the first computes what is common, the others wait for its snapshots. */
static void at_once(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_searched(&alone[k], k, k == 4 ? 300 : COMMON, COMMON + 32, 20);
            run_alone(&alone[k], kind);
        }
        for (int w = kind % 2; w < WAYS; w += kind ? 2 : 1)
            for (int leaves = 0; leaves < 2; leaves++) {
                engine *g = open_way(w, kind, NULL);
                err e = {0};
                bool more;
                for (int k = 0; k < QUERIES; k++) {
                    make_searched(&got[k], k, k == 4 ? 300 : COMMON, COMMON + 32, 20);
                    text_add(g, &got[k]);
                }
                for (int i = 0; i < 4 && leaves; i++) assert_ok(engine_infer(g, &more, &e), &e);
                if (leaves && w == 1) engine_pause(g, got[0].id, true);
                else if (leaves) engine_cancel(g, got[0].id);
                text_run(g);
                engine_pause(g, got[0].id, false);
                text_run(g);
                for (int k = 0; k < QUERIES; k++) {
                    if (got[k].finish == FINISH_CANCELLED) continue;
                    text_same(&alone[k], &got[k]);
                    if (!leaves && k) assert_int_equal(got[k].cached, (k == 4 ? 300 : COMMON) / STOP * STOP);
                }
                text_all_given_back(g);
                engine_close(g);
            }
    }
}

/* Choices of one prompt: it is read once, and all have their first token at once. */
static void choices(void **unused)
{
    (void)unused;
    enum { CHOICES = 4 };
    static text alone[CHOICES], got[CHOICES];
    for (int kind = 0; kind < KINDS; kind++)
        for (int prompt = 500; prompt <= 512; prompt += 12) { /* 512: the slot where they part is a snapshot */
            for (int k = 0; k < CHOICES; k++) {
                make_searched(&alone[k], 1, 0, prompt, TOKENS);
                alone[k].q.sample.choice = k;
                alone[k].q.sample.temperature = 1.2;
                run_alone(&alone[k], kind);
            }
            for (int w = kind; w < 2 * WAYS; w += kind ? 5 : 1) {
                engine *g = open_way(w / 2, kind, w % 2 ? "ngram" : NULL);
                err e = {0};
                bool more;
                engine_stats st;
                for (int k = 0; k < CHOICES; k++) {
                    make_searched(&got[k], 1, 0, prompt, TOKENS);
                    got[k].q.sample = alone[k].q.sample;
                    got[k].q.same_prompt_as = k ? got[0].id : 0;
                    text_add(g, &got[k]);
                }
                while (!got[0].n) assert_ok(engine_infer(g, &more, &e), &e);
                for (int k = 0; k < CHOICES; k++) assert_true(got[k].n == 1 && got[k].cached == 0);
                text_run(g);
                for (int k = 0; k < CHOICES; k++) text_same(&alone[k], &got[k]);
                engine_get_stats(g, &st);
                assert_true(st.prompt_tokens == (uint64_t)prompt && st.recomputed_tokens == 0);
                text_all_given_back(g);
                engine_close(g);
            }
        }
}

/* A text goes on: what it has generated is found too; with guesses, which are not kept where they fail. */
static void goes_on(void **unused)
{
    (void)unused;
    static text first, next, alone;
    for (int kind = 0; kind < KINDS; kind++)
        for (int w = kind; w < 2 * WAYS; w += kind ? 5 : 1)
            for (int k = 0; k < 2; k++) {
                engine *g = open_way(w / 2, kind, w % 2 ? "ngram" : NULL);
                make_searched(&first, k, 0, 500, TOKENS);
                text_add(g, &first);
                text_run(g);
                make_searched(&next, k, 0, 500, TOKENS);
                memcpy(next.ids + 500, first.token, TOKENS * sizeof *first.token);
                next.q.n_ids = 500 + TOKENS;
                alone = next;
                alone.q.ids = alone.ids;
                alone.q.ctx = &alone;
                text_add(g, &next);
                text_run(g);
                assert_int_equal(next.cached, 512);
                run_alone(&alone, kind);
                text_same(&alone, &next);
                text_all_given_back(g);
                engine_close(g);
            }
}

/* Of three snapshots for which there is room those go first that were used longest ago. */
static void oldest_goes_first(void **unused)
{
    (void)unused;
    static text t;
    static const int order[] = {0, 1, 2, 0, 3, 0, 1}, found[] = {0, 0, 0, 256, 0, 256, 0};
    engine *g = open_engine((engine_options){.max_batch = 1}, HYBRID);
    text_limit_slots(g, 5);
    for (int i = 0; i < 7; i++) {
        make_searched(&t, 3 * order[i], 0, 300, 5);
        text_add(g, &t);
        text_run(g);
        assert_int_equal(t.cached, found[i]);
    }
    text_all_given_back(g);
    engine_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_another), cmocka_unit_test(at_once),
                                       cmocka_unit_test(choices), cmocka_unit_test(goes_on),
                                       cmocka_unit_test(oldest_goes_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
