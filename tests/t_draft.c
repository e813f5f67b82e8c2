/* t_draft.c - guesses change no text: what queries of every kind give alone, without guesses, they give in full steps
 * with guesses of which some hold and some do not, on one device and several, with steps under way at once. Log-
 * probabilities are the same, pages are given back, fewer steps are taken. And what draft_ngram finds. */
#include "engine/engine_state.h"
#include "test.h"

#include "base/rng.h"

#include <math.h>

enum { QUERIES = 8, TOKENS = 100, PROMPT = 9, CTX = 120, TOP = 2 };

typedef struct text {
    query q;
    int32_t prompt[PROMPT], ids[TOKENS + 1];
    float logprob[TOKENS];
    top_logprob top[TOKENS][TOP];
    int n;
    finish_reason finish;
} text;

static text alone[QUERIES], together[QUERIES];
static int32_t stops[1];
static const int32_t bad[] = {1, 7, 2, 8, 9};
static const logit_bias bias[] = {{5, 2.5f}};

static const sample_params asked[QUERIES] = {
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1, .seed = 1},
    {.temperature = 1,
     .top_p = 1,
     .repetition_penalty = 1,
     .typical_p = 1,
     .tfs_z = 1,
     .fsd_n = 1,
     .seed = 2,
     .mirostat = 1,
     .mirostat_tau = 3,
     .mirostat_eta = 0.2},
    {.temperature = 0.7,
     .top_k = 20,
     .top_p = 0.9,
     .repetition_penalty = 1.3,
     .typical_p = 1,
     .tfs_z = 1,
     .fsd_n = 1,
     .seed = 3},
    {.temperature = 1.5,
     .top_p = 1,
     .min_p = 0.05,
     .repetition_penalty = 1,
     .typical_p = 1,
     .tfs_z = 1,
     .fsd_n = 1,
     .seed = 4,
     .choice = 3},
    {.temperature = 0,
     .top_p = 1,
     .repetition_penalty = 1,
     .typical_p = 1,
     .tfs_z = 1,
     .fsd_n = 1,
     .presence_penalty = 1.5,
     .seed = 5},
    {.temperature = 1,
     .top_p = 0.8,
     .repetition_penalty = 1,
     .typical_p = 1,
     .tfs_z = 1,
     .fsd_n = 1,
     .frequency_penalty = 0.7,
     .seed = 6},
    {.temperature = 0, .top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1, .seed = 7},
    {.temperature = 0.5,
     .top_p = 1,
     .repetition_penalty = 1,
     .typical_p = 1,
     .tfs_z = 1,
     .fsd_n = 1,
     .seed = 8,
     .fsd_k = 4,
     .fsd_alpha = 0.5,
     .fsd_beta = 0.9,
     .fsd_steps = 5},
};

static bool keep(void *ctx, const token_event *ev)
{
    text *t = ctx;
    if (ev->token >= 0) {
        assert_int_equal(ev->index, t->n);
        t->ids[t->n] = ev->token;
        t->logprob[t->n] = ev->logprob;
        for (int i = 0; i < ev->n_top; i++) t->top[t->n][i] = ev->top[i];
        t->n++;
    }
    t->finish = ev->finish;
    return true;
}

static text text_asked(const engine *g, int i)
{
    const int32_t n_vocab = engine_describe(g)->n_vocab;
    text t = {.q = {.n_ids = PROMPT,
                    .max_tokens = i == 6 ? 1 + i : TOKENS,
                    .min_tokens = i == 4 ? 12 : 0,
                    .ignore_eos = i != 4,
                    .sample = asked[i],
                    .stop_ids = stops,
                    .n_stop_ids = i == 7,
                    .bad = bad,
                    .n_bad = i == 2 ? 5 : 0,
                    .bias = bias,
                    .n_bias = i == 5,
                    .n_logprobs = i % 3 == 1 ? TOP : -1,
                    .on_token = keep}};
    for (int k = 0; k < PROMPT; k++) t.prompt[k] = (i * 31 + k * 7 + 3) % n_vocab;
    return t;
}

static void add(engine *g, text *t)
{
    err e = {0};
    t->q.ids = t->prompt;
    t->q.ctx = t;
    assert_ok(engine_add_query(g, &t->q, NULL, &e), &e);
}

static void run(engine *g)
{
    bool more = true;
    err e = {0};
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
}

/* What follows in the text that the ids begin, with every fourth token wrong. */
static int guess_known(const int32_t *ids, int64_t n_ids, int32_t *to, int n)
{
    for (int i = 0; i < QUERIES; i++) {
        const int64_t at = n_ids - PROMPT;
        if (at < 0 || memcmp(ids, alone[i].prompt, sizeof alone[i].prompt)) continue;
        for (int k = 0; k < n; k++) {
            const int32_t id = at + k < alone[i].n ? alone[i].ids[at + k] : 3;
            to[k] = rng_mix((uint64_t)(at * 31 + k * 7 + i)) % 4 ? id : (id + 1) % 8;
        }
        return n;
    }
    return 0;
}

static engine *engine_made(const char *path, const char *devices, int in_flight)
{
    engine *g;
    err e = {0};
    const engine_options o = {.model = path,
                              .devices = devices,
                              .in_flight = in_flight,
                              .draft_max = 5,
                              .ctx = CTX,
                              .chunk = 40,
                              .threads = 1,
                              .max_batch = QUERIES};
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

static void compare(const text *a, const text *b, int i)
{
    if (a->n != b->n || memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids)) fail_msg("query %d: another text", i);
    assert_int_equal(a->finish, b->finish);
    for (int k = 0; k < a->n && a->q.n_logprobs >= 0; k++) {
        assert_memory_equal(&a->logprob[k], &b->logprob[k], sizeof(float));
        assert_memory_equal(a->top[k], b->top[k], sizeof a->top[k]);
    }
}

static void check(const char *path, const char *devices, int in_flight)
{
    static const draft_source known = {"known", guess_known};
    engine *g = engine_made(path, devices, in_flight);
    engine_stats st;
    g->guesses.from = &known;
    for (int i = 0; i < QUERIES; i++) together[i] = text_asked(g, i);
    for (int i = 0; i < QUERIES; i++) add(g, &together[i]);
    run(g);
    for (int i = 0; i < QUERIES; i++) compare(&alone[i], &together[i], i);
    engine_get_stats(g, &st);
    assert_true(st.draft_accepted > 20 && st.draft_accepted < st.draft_tokens);
    assert_int_equal(st.pages_used, 0);
    assert_true(st.steps * 10 < TOKENS * 10 + 60 || in_flight > 1);
    engine_close(g);
}

static void check_model(const char *path)
{
    engine *g = engine_made(path, "cpu", 1);
    stops[0] = 11;
    for (int i = 0; i < QUERIES; i++) {
        alone[i] = text_asked(g, i);
        add(g, &alone[i]);
        run(g);
    }
    engine_close(g);
    check(path, "cpu", 1);
    check(path, "cpu:1;cpu:1", 3);
    check(path, "cpu:1&cpu:1", 1);
}

static void same_texts(void **unused)
{
    (void)unused;
    static const char *const models[] = {"llama-dynamic", "gemma3", "mistral", "lfm2", "gpt2", "mixtral"};
    check_model(NULL);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "tests/vectors/models/%s", models[i]);
        check_model(folder);
    }
}

static void check_ngram(const int32_t *ids, int n_ids, const int32_t *want, int n)
{
    int32_t to[4];
    assert_int_equal(draft_ngram.guess(ids, n_ids, to, 4), n);
    assert_memory_equal(to, want, (size_t)n * sizeof *to);
}

static void ngrams(void **unused)
{
    (void)unused;
    check_ngram((const int32_t[]){1, 2, 3, 4, 5}, 5, NULL, 0);
    check_ngram((const int32_t[]){1, 2, 9, 8, 7, 6, 1, 2}, 8, (const int32_t[]){9, 8, 7, 6}, 4);
    check_ngram((const int32_t[]){5}, 1, NULL, 0);
    check_ngram((const int32_t[]){4, 4, 4}, 3, (const int32_t[]){4, 4, 4, 4}, 4); /* a loop goes on */
    /* the longest, not the latest: 3 1 2 was followed by 8, 1 2 by 9 later */
    check_ngram((const int32_t[]){3, 1, 2, 8, 1, 2, 9, 3, 1, 2}, 10, (const int32_t[]){8, 1, 2, 9}, 4);
    /* of equals the latest */
    check_ngram((const int32_t[]){1, 2, 8, 1, 2, 9, 1, 2}, 8, (const int32_t[]){9, 1, 2, 9}, 4);
}

/* Guesses that never hold are given up but for a try now and then; those that hold are made. */
static void guesses_follow_what_held(void **unused)
{
    (void)unused;
    static int32_t ids[4096];
    session s = {.ids = ids, .n_ids = 100, .n_prompt = 50, .room = 4000};
    draft d;
    err e = {0};
    int made = 0;
    assert_ok(draft_open(&d, "ngram", 8, &e), &e);
    for (int rows = 1; rows < 9; rows++) draft_timed(&d, rows, 1 + 0.02 * rows); /* a row costs 2 % */
    for (int i = 0; i < 200; i++) {
        draft_guess(&d, &s, 0, 8);
        assert_true(s.n_draft <= 8);
        made += i >= 100 ? s.n_draft : 0;
        draft_learn(&s, 0);
    }
    assert_in_range(made, 1, 20);
    for (int i = 0; i < 400; i++) {
        draft_guess(&d, &s, 0, 8);
        draft_learn(&s, s.n_draft);
    }
    draft_guess(&d, &s, 0, 8);
    assert_int_equal(s.n_draft, 8);
    for (int rows = 1; rows < 200; rows++) draft_timed(&d, 1 + rows % 9, rows % 9 + 1); /* a row costs all */
    draft_guess(&d, &s, 7, 8);
    assert_true(s.n_draft < 2);
    s.room = 52; /* two tokens are left, one of them comes without a guess */
    s.n_draft = 0;
    draft_guess(&d, &s, 0, 8);
    assert_true(s.n_draft <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ngrams),
        cmocka_unit_test(guesses_follow_what_held),
        cmocka_unit_test(same_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
