/* t_engine_draft.c - guesses change no text: what queries of every kind give alone, without guesses, they give in full
 * steps with guesses of which some hold and some do not, on one device and several, with steps under way at once. Log-
 * probabilities are the same, pages are given back, fewer steps are taken. A text that is drawn among the best logits
 * alone is that which is drawn from whole rows, where log-probabilities are asked for. And what draft_ngram finds. */
#include "engine/engine_state.h"
#include "measure/auto_open.h"
#include "test.h"

#include "base/rng.h"

#include <math.h>

enum { QUERIES = 10, TOKENS = 100, PROMPT = 9, CTX = 120, TOP = 2 };

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

static sample_params params_of(int i)
{
    static const char *const asked[QUERIES][8] = {
        {"temperature", "0"},
        {"temperature", "1"},
        {"temperature", "0.7", "top_k", "20", "top_p", "0.9", "repetition_penalty", "1.3"},
        {"temperature", "1.5", "min_p", "0.05"},
        {"temperature", "0", "presence_penalty", "1.5"},
        {"top_p", "0.8", "frequency_penalty", "0.7", "mirostat", "2"},
        {"temperature", "0"},
        {"temperature", "0.5", "typical_p", "0.95"},
        {"temperature", "1.4", "top_k", "5", "top_p", "0.95"},
        {"temperature", "1.4", "top_k", "5", "top_p", "0.95"},
    };
    sample_params p;
    err e = {0};
    param_defaults(sample_param_rows, sample_param_count, &p);
    p.seed = (i == 9 ? 8 : i) + 1;
    p.choice = i == 3 ? 3 : 0;
    for (int k = 0; k < 8 && asked[i][k]; k += 2)
        assert_ok(param_set(param_find(sample_param_rows, sample_param_count, asked[i][k]), &p, asked[i][k + 1],
                            "params_of", &e),
                  &e);
    return p;
}

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
                    .sample = params_of(i),
                    .stop_ids = stops,
                    .n_stop_ids = i == 7,
                    .bad = bad,
                    .n_bad = i == 2 ? 5 : 0,
                    .bias = bias,
                    .n_bias = i == 5,
                    .n_logprobs = i % 3 == 1 || i == 9 ? TOP : -1,
                    .on_token = keep}};
    for (int k = 0; k < PROMPT; k++) t.prompt[k] = ((i == 9 ? 8 : i) * 31 + k * 7 + 3) % n_vocab;
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
static void guess_known(void *self, session **who, int n)
{
    (void)self;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < QUERIES; i++) {
            const int64_t at = who[j]->n_ids - PROMPT;
            if (at < 0 || memcmp(who[j]->ids, alone[i].prompt, sizeof alone[i].prompt)) continue;
            for (int k = 0; k < who[j]->draft.n; k++) {
                const int32_t id = at + k < alone[i].n ? alone[i].ids[at + k] : 3;
                who[j]->ids[PROMPT + at + k] = rng_mix((uint64_t)(at * 31 + k * 7 + i)) % 4 ? id : (id + 1) % 8;
            }
        }
}

static engine *engine_made(const char *path, const char *devices, int in_flight, const char *guesser)
{
    engine *g;
    err e = {0};
    const engine_options o = {.model = path,
                              .devices = devices,
                              .choices.in_flight = in_flight,
                              .draft = guesser,
                              .draft_max = 5,
                              .ctx = CTX,
                              .chunk = 40,
                              .threads = 1,
                              .max_batch = QUERIES};
    assert_ok(auto_open(&g, &o, &e), &e);
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

/* All queries at once give what each gave alone; of the guesses so many of a hundred hold. */
static void compare_all(engine *g, int least, int most)
{
    engine_stats st;
    for (int i = 0; i < QUERIES; i++) together[i] = text_asked(g, i);
    for (int i = 0; i < QUERIES; i++) add(g, &together[i]);
    run(g);
    for (int i = 0; i < QUERIES; i++) compare(&alone[i], &together[i], i);
    engine_get_stats(g, &st);
    assert_in_range(st.draft_accepted * 100, st.draft_tokens * (uint64_t)least, st.draft_tokens * (uint64_t)most);
    assert_int_equal(st.pages_used, 0);
    assert_true(!least || st.draft_tokens > 20);
    engine_close(g);
}

static const draft_kind known = {.name = "known", .guess = guess_known};

/* kept: slots keep the rows of guesses apart; else a step goes back, as with nodes of older versions. */
static void check(const char *path, const char *devices, int in_flight, bool kept)
{
    engine *g = engine_made(path, devices, in_flight, kept ? "ngram" : NULL);
    g->guesses.kind = &known;
    compare_all(g, 30, 95);
}

static void write_alone(const char *path)
{
    engine *g = engine_made(path, "cpu", 1, NULL);
    stops[0] = 11;
    for (int i = 0; i < QUERIES; i++) {
        alone[i] = text_asked(g, i);
        add(g, &alone[i]);
        run(g);
    }
    compare(&alone[8], &alone[9], 9);
    engine_close(g);
}

static void check_model(const char *path)
{
    write_alone(path);
    for (int kept = 0; kept < 2; kept++) {
        check(path, "cpu", 1, kept);
        check(path, "cpu:1;cpu:1", 3, kept);
        check(path, "cpu:1&cpu:1", 1, kept);
    }
}

/* A model that guesses for itself draws the same, where nothing but the draw decides; one with other weights seldom. */
static void models_guess(void **unused)
{
    (void)unused;
    write_alone(NULL);
    compare_all(engine_made(NULL, "cpu", 1, "builtin"), 90, 100);
    compare_all(engine_made(NULL, "cpu:1;cpu:1", 3, "builtin"), 90, 100);
    write_alone("tests/vectors/models/llama");
    compare_all(engine_made("tests/vectors/models/llama", "cpu", 1, "tests/vectors/models/llama-mha"), 0, 50);
    compare_all(engine_made("tests/vectors/models/llama", "cpu", 1, "ngram"), 0, 100);
    write_alone("tests/vectors/models/lfm2"); /* a model with slots guesses, for itself and for one without */
    compare_all(engine_made("tests/vectors/models/lfm2", "cpu", 1, "tests/vectors/models/lfm2"), 90, 100);
    compare_all(engine_made("tests/vectors/models/lfm2", "cpu:1;cpu:1", 3, "tests/vectors/models/lfm2"), 90, 100);
}

static void expect_refusal(const char *path, const char *guesser, const char *message)
{
    engine *g;
    err e = {0};
    assert_int_equal(auto_open(&g, &(engine_options){.model = path, .draft = guesser, .threads = 1}, &e), ERR_USAGE);
    assert_null(g);
    if (!strstr(e.msg, message)) fail_msg("\"%s\" does not say \"%s\"", e.msg, message);
}

static void refusals(void **unused)
{
    (void)unused;
    expect_refusal(NULL, "tests/vectors/models/llama", "its vocabulary is another one");
    expect_refusal("tests/vectors/models/llama", "tests/vectors/models/bart", "only decoders");
}

/* Rows that a text of a model with slots takes besides those of its tokens and of the guesses that failed. */
static int64_t rows_again(bool kept)
{
    engine *g = engine_made("tests/vectors/models/lfm2", "cpu", 1, kept ? "ngram" : NULL);
    engine_stats st;
    err e = {0};
    int64_t rows = 0;
    g->guesses.kind = &known;
    text t = text_asked(g, 1);
    add(g, &t);
    for (bool more = true; more;) {
        const uint64_t sent = g->steps.sent;
        for (session *s = g->running; s; s = s->next)
            s->draft.acceptance = 0.9f, s->draft.known = true, s->draft.backoff_left = 0; /* guesses are made */
        assert_ok(engine_infer(g, &more, &e), &e);
        if (g->steps.sent > sent) rows += g->steps.rows[sent % (uint64_t)g->steps.in_flight].st.n[AXIS_TOK];
    }
    compare(&alone[1], &t, 1);
    engine_get_stats(g, &st);
    engine_close(g);
    assert_true(st.draft_tokens > 50 && st.draft_tokens - st.draft_accepted > 20);
    return rows - (PROMPT + t.n - 1 + (int64_t)(st.draft_tokens - st.draft_accepted));
}

/* A row that was accepted is not computed again, also where the state of a text cannot go back. */
static void no_row_twice(void **unused)
{
    (void)unused;
    write_alone("tests/vectors/models/lfm2");
    assert_true(rows_again(false) > 20);
    assert_int_equal(rows_again(true), 0);
}

static void same_texts(void **unused)
{
    (void)unused;
    static const char *const models[] = {"llama-dynamic", "gemma3", "mistral", "lfm2", "gpt2", "mixtral", "qwen3.5"};
    check_model(NULL);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "tests/vectors/models/%s", models[i]);
        check_model(folder);
    }
}

static void check_ngram(const int32_t *ids, int n_ids, const int32_t *want, int n)
{
    int32_t room[32];
    session s = {.ids = room, .n_ids = n_ids, .draft.n = 4}, *one = &s;
    memcpy(room, ids, (size_t)n_ids * sizeof *ids);
    draft_ngram.guess(NULL, &one, 1);
    assert_int_equal(s.draft.n, n);
    assert_memory_equal(room + n_ids, want ? want : room, (size_t)n * sizeof *want);
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

/* As many guesses as are wanted. */
static void guess_anything(void *self, session **who, int n) { (void)self, (void)who, (void)n; }

/* A step of one row of each sequence took so long. */
static void learn(step_time *t, int rows, double seconds)
{
    int32_t row[16], len[16];
    for (int i = 0; i < 16; i++) row[i] = i, len[i] = 1;
    const step st = {.tok = {.seq_row = row, .seq_len = len}, .n_seq = rows, .n = {[AXIS_TOK] = rows}};
    step_time_learn(t, &st, seconds);
}

/* Guesses that never hold are given up but for a try now and then; those that hold are made. */
/* Guesses in 200 steps, each of which takes so many seconds to make. */
static int guesses_made(draft *d, const step_time *t, session **who, double each)
{
    int made = 0;
    for (int i = 0; i < 200; i++) {
        d->each = each;
        draft_guess(d, t, who, 1, 8);
        made += who[0]->draft.n;
    }
    return made;
}

static void guesses_follow_what_held(void **unused)
{
    (void)unused;
    static int32_t ids[4096];
    static const draft_kind anything = {.name = "anything", .guess = guess_anything};
    session s = {.ids = ids, .n_ids = 100, .n_prompt = 50, .room = 4000}, *who[9] = {&s};
    draft d = {.kind = &anything, .who = who, .most = 8};
    step_time t = {.n = 0};
    int made = 0;
    for (int rows = 1; rows < 9; rows++) learn(&t, rows, 1 + 0.02 * rows); /* a row costs 2 % */
    for (int i = 0; i < 200; i++) {
        draft_guess(&d, &t, who, 1, 8);
        assert_true(s.draft.n <= 8);
        made += i >= 100 ? s.draft.n : 0;
        draft_learn(&s, 0);
    }
    assert_in_range(made, 1, 20);
    for (int i = 0; i < 400; i++) {
        draft_guess(&d, &t, who, 1, 8);
        draft_learn(&s, s.draft.n);
    }
    draft_guess(&d, &t, who, 1, 8);
    assert_int_equal(s.draft.n, 8);
    draft_guess(&d, &t, who, 1, 3); /* of a chunk no more are left */
    assert_int_equal(s.draft.n, 3);
    assert_in_range(guesses_made(&d, &t, who, 1), 8, 200); /* as long as a step: some try whether it still is so */
    for (int rows = 1; rows < 200; rows++) learn(&t, 1 + rows % 9, rows % 9 + 1); /* a row costs all */
    assert_in_range(guesses_made(&d, &t, who, 0), 0, 100);
    s.room = 52; /* two tokens are left, one of them comes without a guess */
    draft_guess(&d, &t, who, 1, 8);
    assert_true(s.draft.n <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ngrams),       cmocka_unit_test(guesses_follow_what_held),
        cmocka_unit_test(same_texts),   cmocka_unit_test(models_guess),
        cmocka_unit_test(no_row_twice), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
