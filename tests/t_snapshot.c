/* t_snapshot.c - texts of models with states of fixed size share prefixes up to the last snapshot: tokens and
 * log-probabilities are those of a fresh engine, bit for bit, and what was found is what was not computed; with pages
 * besides, with windows, and with slots alone; one after another, at once, when the one that computes leaves, for
 * choices and beams, with guesses, when slots, names and pages are short, on several devices, when one fails. */
#include "text_rig.h"

enum { CTX = TEXT_CTX, TOKENS = 24, QUERIES = 6, COMMON = 1000, STOP = SNAPSHOT_TOKENS };

static fake_log done;
static const fake_options fake_of_each = {.log = &done, .delay = 20};
static const backend_use more_backends[] = {{&fake_backend, &fake_of_each}, {0}};

/* What the layers are: convolutions and attention; and attention in a window; convolutions alone. */
enum { HYBRID, WINDOWED, ALONE, KINDS };

static engine *open_engine(engine_options o, int kind)
{
    model_shape of = text_shape(CTX);
    err e = {0};
    of.layers = kind == ALONE ? 3 : 4;
    of.window = kind == WINDOWED ? 70 : 0;
    of.taps = 100;
    of.only_taps = kind == ALONE;
    o.more_backends = more_backends;
    engine *g = text_engine(rig_model(&of, 7, CTX), o);
    if (o.draft) assert_ok(draft_open(&g->guesses, g, &e), &e);
    return g;
}

/* The third of each is a search with beams. */
static void make_searched(text *t, int k, int common, int n, int most)
{
    text_make(t, k, common, n, most);
    t->q.beams = k % 3 == 2 ? 3 : 1;
    t->q.n_logprobs = k % 3 == 1 ? 2 : -1;
}

static void run_alone(text *t, int kind) { text_run_alone(open_engine((engine_options){.max_batch = 4}, kind), t); }

static const text_way ways[] = {{NULL, 0, 0, 32},
                                {NULL, 0, 100, 6},
                                {"cpu:1&cpu:1", 2, 300, 32},
                                {"cpu&fake;fake", 4, 77, 32},
                                {"fake;fake", 5, 256, 9}};
enum { WAYS = sizeof ways / sizeof *ways };

static engine *open_way(int i, int kind, const char *guess)
{
    engine_options o = text_way_options(&ways[i]);
    o.draft = guess;
    return open_engine(o, kind);
}

/* One after another: the first 768 of 1 000 common tokens are found, then the whole stops of each prompt. */
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
            make_searched(&alone[k], k, k == 4 ? 600 : COMMON, COMMON + 32, 20);
            run_alone(&alone[k], kind);
        }
        for (int w = kind % 2; w < WAYS; w += kind ? 2 : 1)
            for (int leaves = 0; leaves < 2; leaves++) {
                engine *g = open_way(w, kind, NULL);
                err e = {0};
                bool more;
                for (int k = 0; k < QUERIES; k++) {
                    make_searched(&got[k], k, k == 4 ? 600 : COMMON, COMMON + 32, 20);
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
                    if (!leaves && k) assert_int_equal(got[k].cached, (k == 4 ? 600 : COMMON) / STOP * STOP);
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
                    got[k].q.like = k ? got[0].id : 0;
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

/* Few slots, names and pages: snapshots make room, the oldest first, and no text is changed. */
static void short_of_slots(void **unused)
{
    (void)unused;
    static text alone[QUERIES], got[2 * QUERIES];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int k = 0; k < QUERIES; k++) {
            make_searched(&alone[k], k, 300 * (k % 3), 300 + 90 * k, TOKENS);
            run_alone(&alone[k], kind);
        }
        for (int w = kind; w < 3 * WAYS; w += 4) {
            engine *g = open_way(w / 3, kind, w % 2 ? "ngram" : NULL);
            g->slots.total = g->slots.n_free = 6 + w % 3; /* beams take six */
            if (w % 3 == 1) g->names.cap = 70;
            for (uint32_t i = 0; i < g->prog->n_group && w % 3 == 2; i++) {
                const int64_t rows = g->chunk * g->steps.in_flight;
                g->pages[i].total = g->pages[i].n_free = 3 * pages_needed(1000, g->prog->group_window[i], rows) + 2;
            }
            for (int k = 0; k < 2 * QUERIES; k++) {
                const int of = (int)(rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES);
                make_searched(&got[k], of, 300 * (of % 3), 300 + 90 * of, TOKENS);
                text_add(g, &got[k]);
                if (k % 5 == 4) text_run(g);
            }
            text_run(g);
            for (int k = 0; k < 2 * QUERIES; k++)
                text_same(&alone[rng_bits(9, (uint64_t)w, (uint64_t)k) % QUERIES], &got[k]);
            text_all_given_back(g);
            engine_close(g);
        }
    }
}

/* Of three snapshots for which there is room the one that was used last stays. */
static void oldest_goes_first(void **unused)
{
    (void)unused;
    static text t;
    static const int order[] = {0, 1, 2, 0, 3, 0, 1}, found[] = {0, 0, 0, 256, 0, 256, 0};
    engine *g = open_engine((engine_options){.max_batch = 1}, HYBRID);
    g->slots.total = g->slots.n_free = 5;
    for (int i = 0; i < 7; i++) {
        make_searched(&t, 3 * order[i], 0, 300, 5);
        text_add(g, &t);
        text_run(g);
        assert_int_equal(t.cached, found[i]);
    }
    text_all_given_back(g);
    engine_close(g);
}

/* A step fails, with a snapshot or without: texts that have no rows in it go on, and so does one that comes after. */
static void faults(void **unused)
{
    (void)unused;
    enum { TEXTS = 4 };
    static text alone[TEXTS], got[TEXTS];
    for (int k = 0; k < TEXTS; k++) {
        make_searched(&alone[k], k, 530, 550, 6);
        run_alone(&alone[k], HYBRID);
    }
    int failed = 0;
    bool reached = true;
    for (unsigned at = 1; reached; at += 5) {
        engine *g = open_way(4, HYBRID, NULL);
        done.fail_at = atomic_load(&done.all) + at;
        for (int k = 0; k < TEXTS; k++) {
            make_searched(&got[k], k, 530, 550, 6);
            got[k].may_fail = true;
            text_add(g, &got[k]);
            if (k >= TEXTS - 2) text_run(g);
            if (k == TEXTS - 2) reached = atomic_load(&done.all) >= done.fail_at;
        }
        for (int k = 0; k < TEXTS; k++) {
            assert_int_equal(got[k].ends, 1);
            if (got[k].finish != FINISH_ERROR) text_same(&alone[k], &got[k]);
            else failed++;
        }
        if (reached) assert_int_equal(got[TEXTS - 1].n, 6);
        text_all_given_back(g);
        engine_close(g);
        done.fail_at = 0;
    }
    assert_true(failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_another),
                                       cmocka_unit_test(at_once),
                                       cmocka_unit_test(choices),
                                       cmocka_unit_test(goes_on),
                                       cmocka_unit_test(short_of_slots),
                                       cmocka_unit_test(oldest_goes_first),
                                       cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
