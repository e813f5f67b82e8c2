/* t_engine_slots.c - models with slots, of convolutions and of recurrences, whatever else happens: texts that share
 * beginnings up to a snapshot in the middle, beams, choices, guesses of which half are wrong, texts that are put back
 * for lack of pages, few slots; on one device, stages, ranks that share every layer, and nodes of this process. Tokens
 * and log-probabilities are those of each text alone, bit for bit. */
#include "node_rig.h"
#include "text_rig.h"

enum { CTX = 640, TEXTS = 9, COMMON = 300, TOKENS = 150 };

static text alone[TEXTS], got[2 * TEXTS];

/* Text i: every third is a search, every third tells log-probabilities; the last ones are choices of one prompt. */
static void make(text *t, const engine *g, int i)
{
    const int k = i >= TEXTS - 2 ? TEXTS - 2 : i;
    text_make(t, k, COMMON, COMMON + 5 + 7 * k, TOKENS);
    for (size_t j = 0; j < t->q.n_ids; j++) t->ids[j] %= engine_describe(g)->n_vocab;
    t->q.beams = i % 3 == 2 && i < TEXTS - 2 ? 3 : 1;
    t->q.n_logprobs = i % 3 == 1 ? 2 : -1;
    t->q.sample.choice = i >= TEXTS - 2 ? i - (TEXTS - 2) : 0;
    if (i >= TEXTS - 2) t->q.sample.temperature = 1.1;
}

/* What follows in the texts that begin so, with half of the tokens wrong. */
static void guess_half(void *self, session **who, int n)
{
    const int32_t n_vocab = engine_describe(self)->n_vocab;
    for (int j = 0; j < n; j++) {
        const session *s = who[j];
        const int64_t at = s->n_ids - s->n_prompt;
        const text *like = NULL;
        for (int i = 0; i < TEXTS && !like; i++)
            if (alone[i].q.n_ids == s->q.n_ids && !memcmp(alone[i].ids, s->ids, (size_t)s->n_prompt * sizeof *s->ids) &&
                alone[i].q.sample.choice == s->q.sample.choice)
                like = &alone[i];
        for (int k = 0; k < s->draft.n; k++) {
            const int32_t id = like && at + k < like->n ? like->token[at + k] : 1;
            s->ids[s->n_ids + k] = rng_mix((uint64_t)(at * 31 + k)) % 2 ? id : (id + 1) % n_vocab;
        }
    }
}

static const draft_kind half = {.name = "half", .guess = guess_half};

static engine *open_over(const nodes *n, const char *path, const char *devices, const char *guess)
{
    const engine_options o = {.model = path,
                              .devices = n ? list_of(n, devices) : devices,
                              .key_file = n ? n->key : NULL,
                              .draft = guess,
                              .draft_max = 5,
                              .ctx = CTX,
                              .chunk = 120,
                              .threads = 1,
                              .max_batch = 8};
    engine *g;
    err e = {0};
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

/* Pages for little more than a text, too few for a search, so that others are put back, and slots for seven. */
static void cut_memory(engine *g)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        g->kv.pages[i].total = g->kv.pages[i].n_free = pages_needed(CTX, g->prog->group_window[i], g->chunk) + 4;
    text_limit_slots(g, 15);
}

/* hopes: for short texts, in vain: pages are given out too early. */
static void run_all(engine *g, bool hopes)
{
    err e = {0};
    int steps = 0;
    for (bool more = true; more; steps++) {
        for (session *s = g->running; s; s = s->next)
            s->draft.acceptance = 0.9f, s->draft.known = true, s->draft.backoff_left = 0; /* guesses are made */
        if (hopes) g->used_room = 0;
        assert_ok(engine_infer(g, &more, &e), &e);
        assert_true(steps < TEXT_STEPS);
    }
}

/* All at once, and all again, which find the beginnings. */
static void check(engine *g, bool short_of_memory)
{
    engine_stats st;
    if (g->options.draft) g->guesses.kind = &half, g->guesses.self = g;
    if (short_of_memory) cut_memory(g);
    for (int i = 0; i < 2 * TEXTS; i++) {
        make(&got[i], g, i % TEXTS);
        if (short_of_memory && got[i].q.beams > 1) continue;
        got[i].q.unshared = short_of_memory; /* pages that are shared leave room enough */
        if (i % TEXTS == TEXTS - 1) got[i].q.same_prompt_as = got[i - 1].id;
        text_add(g, &got[i]);
        if (i == TEXTS - 1) run_all(g, short_of_memory);
    }
    run_all(g, short_of_memory);
    for (int i = 0; i < 2 * TEXTS; i++)
        if (got[i].id) text_same(&alone[i % TEXTS], &got[i]);
    engine_get_stats(g, &st);
    assert_true(short_of_memory || st.cached_tokens >= 256);
    assert_true(!g->options.draft || (st.draft_accepted > 10 && st.draft_tokens > st.draft_accepted + 10));
    assert_true(!short_of_memory || st.preemptions > 0);
    g->guesses = (draft){.who = g->guesses.who};
    engine_close(g);
}

static void check_model(const char *path)
{
    static const char *const here[] = {"cpu", "cpu:1;cpu:1", "cpu:1&cpu:1"}, *const over[] = {"A/cpu;cpu",
                                                                                              "A/cpu&B/cpu"};
    nodes n;
    for (int i = 0; i < TEXTS; i++) {
        engine *g = open_over(NULL, path, "cpu", NULL);
        make(&alone[i], g, i);
        text_add(g, &alone[i]);
        text_run(g);
        engine_close(g);
    }
    for (int i = 0; i < 6; i++) check(open_over(NULL, path, here[i / 2], i % 2 ? "ngram" : NULL), false);
    check(open_over(NULL, path, "cpu", "ngram"), true);
    nodes_open(&n, path, NULL);
    for (int i = 0; i < 4; i++) check(open_over(&n, path, over[i / 2], i % 2 ? "ngram" : NULL), false);
    nodes_close(&n);
}

static void convolutions(void **unused)
{
    (void)unused;
    check_model("tests/vectors/models/lfm2");
}

static void recurrences(void **unused)
{
    (void)unused;
    check_model("tests/vectors/models/qwen3-next");
}

static void steps_of_rows(void **unused)
{
    (void)unused;
    check_model("tests/vectors/models/granite-hybrid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(recurrences),
                                       cmocka_unit_test(steps_of_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
