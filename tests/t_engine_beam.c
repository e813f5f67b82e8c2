/* t_engine_beam.c - beam search against transformers (tests/vectors/beams.json, made by tools/oracle/oracle.py beams):
 * the same best text and score, alone and beside other queries, in chunks, on two segments; the encoder of each query
 * runs once; ends in the middle. */
#include "base/json.h"
#include "engine/engine_state.h"

#include "test.h"

#include <math.h>

enum { IDS_MAX = 96, COPIES = 3, CTX = 120 };

typedef struct answer {
    int32_t ids[IDS_MAX];
    int n, ends, stop_after;
    float score;
    finish_reason finish;
} answer;

static bool on_token(void *ctx, const token_event *ev)
{
    answer *a = ctx;
    assert_int_equal(a->ends, 0);
    if (ev->token >= 0) {
        assert_int_equal(ev->index, a->n);
        a->ids[a->n++] = ev->token;
    }
    a->score = ev->score;
    a->finish = ev->finish;
    a->ends = ev->finish != FINISH_NONE;
    if (a->stop_after && a->n == a->stop_after) a->ends = 1;
    return !a->ends;
}

typedef struct search {
    const json *file;
    int32_t enc[IDS_MAX], prompt[IDS_MAX], want[IDS_MAX];
    size_t n_enc, n_prompt, n_want;
} search;

static size_t ids_of(const json *list, int32_t *to)
{
    size_t n = 0;
    for (const json *j = json_first(list); j; j = json_next(j)) {
        assert_true(n < IDS_MAX);
        to[n++] = (int32_t)json_int(j, -1);
    }
    return n;
}

static search read_search(const json *c)
{
    search s = {.file = c};
    s.n_enc = ids_of(json_get(c, "enc"), s.enc);
    s.n_prompt = ids_of(json_get(c, "prompt"), s.prompt);
    s.n_want = ids_of(json_get(c, "ids"), s.want);
    return s;
}

static query query_of(const search *s, answer *a)
{
    const json *early = json_get(s->file, "early_stopping");
    *a = (answer){.n = 0};
    return (query){.ids = s->prompt,
                   .n_ids = s->n_prompt,
                   .enc_ids = s->n_enc ? s->enc : NULL,
                   .n_enc = s->n_enc,
                   .max_tokens = json_int(json_get(s->file, "max_tokens"), 0),
                   .beams = (int32_t)json_int(json_get(s->file, "beams"), 0),
                   .length_penalty = json_num(json_get(s->file, "length_penalty"), NAN),
                   .early_stopping = json_type(early) == JSON_STRING ? BEAM_STOP_NEVER
                                     : json_bool(early, false)       ? BEAM_STOP_FIRST
                                                                     : BEAM_STOP_BETTER,
                   .n_logprobs = -1,
                   .on_token = on_token,
                   .ctx = a};
}

/* The model of a case with the end ids of the case. */
static engine *open_engine(const json *c, engine_options o)
{
    int32_t eos[IDS_MAX];
    err e = {0};
    engine *g;
    size_t n = ids_of(json_get(c, "eos"), eos);
    const char *path = temp_path("beam.ini");
    char folder[400];
    FILE *f = fopen(path, "w");
    assert_true(f && getcwd(folder, sizeof folder));
    fprintf(f, "[model]\npath = %s/tests/vectors/models/%s\n[generate]\neos = [", folder,
            json_str(json_get(c, "model"), ""));
    for (size_t i = 0; i < n; i++) fprintf(f, "%s%d", i ? ", " : "", eos[i]);
    fprintf(f, "]\n");
    assert_int_equal(fclose(f), 0);
    o.spec = path;
    o.kv = "f32";
    o.ctx = CTX;
    assert_ok(engine_open(&g, &o, &e), &e);
    unlink(path);
    return g;
}

static void run_all(engine *g)
{
    bool more = true;
    err e = {0};
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
}

static json *read_cases(void)
{
    json *file;
    err e = {0};
    assert_ok(json_read(&file, "tests/vectors/beams.json", 1 << 20, &e), &e);
    return file;
}

static void check(const search *s, const answer *a, int at, const char *how)
{
    double score = json_num(json_get(s->file, "score"), NAN);
    bool same = a->n == (int)s->n_want && !memcmp(a->ids, s->want, s->n_want * sizeof *a->ids);
    if (!same) fail_msg("case %d (%s), %s: another text", at, json_str(json_get(s->file, "model"), ""), how);
    if (!(fabs((double)a->score - score) <= 3e-4 * fmax(1, fabs(score))))
        fail_msg("case %d (%s), %s: score %g, not %g", at, json_str(json_get(s->file, "model"), ""), how,
                 (double)a->score, score);
    assert_int_equal(a->finish, json_bool(json_get(s->file, "ended"), false) ? FINISH_STOP : FINISH_LENGTH);
    assert_int_equal(a->ends, 1);
}

static void best_texts(void **unused)
{
    (void)unused;
    json *file = read_cases();
    int at = 0;
    for (const json *c = json_first(file); c; c = json_next(c), at++) {
        search s = read_search(c);
        answer a;
        err e = {0};
        engine_stats st;
        engine *g = open_engine(c, (engine_options){.threads = 1, .max_batch = 4});
        query q = query_of(&s, &a);
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        run_all(g);
        check(&s, &a, at, "alone");
        engine_get_stats(g, &st);
        assert_int_equal(st.encoder_runs, s.n_enc > 0);
        assert_true(st.kv_usage == 0 && st.running == 0);
        engine_close(g);
    }
    assert_true(at >= 40);
    json_free(file);
}

/* Three searches and a plain query at once: the same bits. */
static void beside_others(void **unused)
{
    (void)unused;
    static const engine_options ways[] = {{.threads = 1, .max_batch = 16},
                                          {.threads = 2, .max_batch = 9, .chunk = 3},
                                          {.threads = 1, .max_batch = 4, .devices = "cpu:1;cpu:1"}};
    json *file = read_cases();
    int at = 0;
    for (const json *c = json_first(file); c; c = json_next(c), at++) {
        search s = read_search(c);
        answer got[COPIES], plain;
        err e = {0};
        engine *g = open_engine(c, ways[at % 3]);
        query q = query_of(&s, &plain);
        q.beams = 0;
        q.sample = (sample_params){.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1};
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        for (int k = 0; k < COPIES; k++) {
            q = query_of(&s, &got[k]);
            assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        }
        run_all(g);
        for (int k = 0; k < COPIES; k++) {
            check(&s, &got[k], at, "beside others");
            assert_true(got[k].score == got[0].score);
        }
        assert_int_equal(plain.ends, 1);
        engine_close(g);
    }
    json_free(file);
}

static void cancelled_refused_and_stopped(void **unused)
{
    (void)unused;
    json *file = read_cases();
    const json *c = json_first(file);
    search s = read_search(c);
    answer a;
    err e = {0};
    uint64_t id;
    bool more;
    engine_stats st;
    engine *g = open_engine(c, (engine_options){.threads = 1, .max_batch = 4});
    query q = query_of(&s, &a);
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    for (int i = 0; i < 4; i++) assert_ok(engine_infer(g, &more, &e), &e);
    engine_get_stats(g, &st);
    assert_true(st.running == 4 && st.kv_usage > 0);
    engine_cancel(g, id);
    run_all(g);
    assert_int_equal(a.finish, FINISH_CANCELLED);
    q = query_of(&s, &a);
    a.stop_after = 2;
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    run_all(g);
    assert_int_equal(a.n, 2);
    q = query_of(&s, &a);
    q.max_tokens = 0;
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    run_all(g);
    assert_true(a.n == 0 && a.finish == FINISH_LENGTH);
    engine_get_stats(g, &st);
    assert_true(st.kv_usage == 0 && st.running == 0);
    const logit_bias bias = {1, 1};
    for (int i = 0; i < 4; i++) {
        e = (err){0};
        q = query_of(&s, &a);
        if (i == 0) q.beams = 5;
        if (i == 1) q.n_logprobs = 0;
        if (i == 2) q.bias = &bias, q.n_bias = 1;
        if (i == 3) q.length_penalty = NAN;
        assert_int_equal(engine_add_query(g, &q, &id, &e), ERR_USAGE);
    }
    /* where memory gave fewer pages than places: refused at once, for it could never begin */
    int32_t had[GROUP_MAX];
    for (int i = 0; i < GROUP_MAX; i++) had[i] = g->kv.pages[i].total, g->kv.pages[i].total = 3;
    e = (err){0};
    q = query_of(&s, &a);
    assert_int_equal(engine_add_query(g, &q, &id, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "4 beams: at most 3 of 24 tokens"));
    for (int i = 0; i < GROUP_MAX; i++) g->kv.pages[i].total = had[i];
    engine_close(g);
    /* closing ends a search that runs */
    g = open_engine(c, (engine_options){.threads = 1, .max_batch = 4});
    q = query_of(&s, &a);
    assert_ok(engine_add_query(g, &q, &id, &e), &e);
    for (int i = 0; i < 3; i++) assert_ok(engine_infer(g, &more, &e), &e);
    engine_close(g);
    assert_int_equal(a.finish, FINISH_CANCELLED);
    json_free(file);
}

/* The texts of a search, as they come. */
typedef struct answers {
    answer of[4];
    int32_t last; /* that ends a text; -1: none */
} answers;

static bool on_texts(void *ctx, const token_event *ev)
{
    answers *a = ctx;
    assert_true(ev->beam >= 0 && ev->beam < 4);
    return on_token(&a->of[ev->beam], ev) || ev->finish;
}

static bool ends_in_last(void *ctx, const int32_t *ids, int64_t n)
{
    assert_true(n > 0);
    return ids[n - 1] == ((answers *)ctx)->last;
}

/* A token that ends texts, and a rule that says so of texts with it, end the same texts; the rule leaves it in them. */
static void several_texts_that_a_rule_ends(void **unused)
{
    (void)unused;
    json *file = read_cases();
    for (const json *c = json_first(file); c; c = json_next(c)) {
        search s = read_search(c);
        if (s.n_want < 4 || json_int(json_get(c, "beams"), 0) < 3) continue;
        const int32_t stop = s.want[s.n_want / 2];
        answers by_id = {.last = -1}, by_rule = {.last = stop};
        err e = {0};
        engine *g = open_engine(c, (engine_options){.threads = 1, .max_batch = 12});
        answer unused_answer;
        query q = query_of(&s, &unused_answer);
        q.n_best = 3;
        q.on_token = on_texts;
        q.ctx = &by_id;
        q.stop_ids = &stop;
        q.n_stop_ids = 1;
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        q.ctx = &by_rule;
        q.n_stop_ids = 0;
        q.is_whole = ends_in_last;
        assert_ok(engine_add_query(g, &q, NULL, &e), &e);
        run_all(g);
        for (int k = 0; k < 3; k++) {
            const answer *a = &by_id.of[k], *b = &by_rule.of[k];
            assert_true(a->ends == 1 && b->ends == 1 && a->score == b->score && a->finish == b->finish);
            const bool has = b->n == a->n + 1 && b->ids[a->n] == stop;
            assert_true(has || b->n == a->n);
            assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
            assert_true(k == 0 || a->score <= by_id.of[k - 1].score);
        }
        engine_close(g);
    }
    json_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(best_texts), cmocka_unit_test(beside_others),
                                       cmocka_unit_test(cancelled_refused_and_stopped),
                                       cmocka_unit_test(several_texts_that_a_rule_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
