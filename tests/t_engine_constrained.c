/* t_engine_constrained.c - texts of the built-in model under grammars: always whole or cut by max_tokens, the same
 * whatever else the engine does, ended by `stop` where nothing may follow. */
#include "tests/grammar_rig.h"

#include "engine/engine.h"
#include "engine/receipt.h"
#include "measure/replay.h"
#include "sample/form_source.h"
#include "sample/gbnf.h"

static engine *g;

typedef struct answer {
    token_list ids;
    finish_reason finish;
    bool ended;
    char error[200];
} answer;

static bool on_token(void *ctx, const token_event *ev)
{
    answer *a = ctx;
    if (ev->token >= 0) assert_true(token_list_add(&a->ids, ev->token));
    a->finish = ev->finish;
    a->ended = ev->finish != FINISH_NONE;
    if (ev->error) snprintf(a->error, sizeof a->error, "%s", ev->error);
    return !a->ended;
}

static query last; /* as it was asked, with its prompt */
static token_list prompt;

static void ask(grammar *form, int64_t seed, int64_t max_tokens, int64_t min_tokens, answer *a)
{
    err e = {0};
    *a = (answer){0};
    query q = {.max_tokens = max_tokens,
               .min_tokens = min_tokens,
               .n_logprobs = -1,
               .beams = 1,
               .on_token = on_token,
               .ctx = a};
    param_defaults(sample_param_rows, sample_param_count, &q.sample);
    q.sample.temperature = seed < 0 ? 0 : 1.2;
    q.sample.seed = seed;
    q.constraint = form;
    prompt.n = 0;
    assert_ok(tokenizer_encode(engine_tokenizer(g), span_str("Once upon"), TOKENIZE_SPECIAL, &prompt, &e), &e);
    q.ids = prompt.id;
    q.n_ids = prompt.n;
    assert_ok(engine_add_query(g, &q, NULL, &e), &e);
    last = q;
}

static void run(void)
{
    bool more = true;
    err e = {0};
    while (more) assert_ok(engine_infer(g, &more, &e), &e);
}

static void text_of(const answer *a, buf *out)
{
    for (size_t i = 0; i < a->ids.n; i++) assert_true(tokenizer_bytes(engine_tokenizer(g), a->ids.id[i], out));
}

static grammar *gbnf(const char *text)
{
    grammar *form;
    err e = {0};
    const token_trie *t = engine_token_trie(g, &e);
    assert_ok(e.code, &e);
    assert_ok(gbnf_compile(&form, span_str(text), t, &e), &e);
    return form;
}

static void texts_are_whole_or_cut(void **state)
{
    (void)state;
    enum { SEEDS = 20 };
    grammar *form = gbnf(
        "root ::= \" (\" name (\", \" name){0,3} \")\"\nname ::= [A-Z] [a-z]{2,9} | [0-9]+ \"\xc3\xa9\"");
    err e = {0};
    grammar *judge; /* the same over single bytes */
    assert_ok(
        gbnf_compile(
            &judge,
            span_str("root ::= \" (\" name (\", \" name){0,3} \")\"\nname ::= [A-Z] [a-z]{2,9} | [0-9]+ \"\xc3\xa9\""),
            rig_trie(), &e),
        &e);
    answer a[SEEDS], alone;
    int whole = 0;
    for (int i = 0; i < SEEDS; i++) ask(form, i, 24, 0, &a[i]);
    run();
    for (int i = 0; i < SEEDS; i++) {
        buf text = {0};
        text_of(&a[i], &text);
        assert_true(a[i].ended && a[i].finish == (a[i].ids.n < 24 ? FINISH_STOP : a[i].finish));
        assert_int_equal(rig_match(judge, buf_span(&text)), a[i].finish == FINISH_STOP ? RIG_WHOLE : RIG_PART);
        whole += a[i].finish == FINISH_STOP;
        ask(form, i, 24, 0, &alone);
        run();
        assert_int_equal(alone.ids.n, a[i].ids.n);
        assert_memory_equal(alone.ids.id, a[i].ids.id, alone.ids.n * sizeof *alone.ids.id);
        token_list_free(&alone.ids);
        token_list_free(&a[i].ids);
        buf_free(&text);
    }
    assert_true(whole > 5);
    grammar_drop(judge);
    grammar_drop(form);
}

static void check_end(const char *grammar_text, int64_t max, int64_t min, finish_reason finish, const char *expected)
{
    answer a;
    buf text = {0};
    grammar *form = gbnf(grammar_text);
    ask(form, -1, max, min, &a);
    run();
    text_of(&a, &text);
    assert_int_equal(a.finish, finish);
    assert_string_equal(buf_cstr(&text), expected);
    token_list_free(&a.ids);
    buf_free(&text);
    grammar_drop(form);
}

static void ends_are_told_apart(void **state)
{
    (void)state;
    check_end("root ::= \"\"", 5, 0, FINISH_STOP, "");
    check_end("root ::= \" the cat\"", 50, 0, FINISH_STOP, " the cat");
    check_end("root ::= \" the cat\"", 50, 40, FINISH_STOP, " the cat"); /* nothing else may follow */
    check_end("root ::= \"aaaa\"{1000}", 1, 0, FINISH_LENGTH, "a");
}

static grammar *form_of(form_kind kind, const char *source)
{
    grammar *form;
    err e = {0};
    assert_ok(form_compile(&form, kind, span_str(source), engine_token_trie(g, &e), &e), &e);
    return form;
}

static grammar *schema_form(void)
{
    return form_of(
        FORM_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\",\"minimum\":10,\"maximum\":99},"
        "\"who\":{\"type\":\"string\",\"maxLength\":12},\"list\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\","
        "\"blue\"]},"
        "\"minItems\":3,\"maxItems\":6}},\"required\":[\"id\",\"list\"]}");
}

static void json_keeps_to_its_schema(void **state)
{
    (void)state;
    enum { SEEDS = 20 };
    grammar *form = schema_form();
    answer a[SEEDS];
    int whole = 0;
    for (int i = 0; i < SEEDS; i++) ask(form, i, 120, 0, &a[i]);
    run();
    for (int i = 0; i < SEEDS; i++) {
        json *j;
        err e = {0};
        buf text = {0};
        text_of(&a[i], &text);
        if (a[i].finish == FINISH_STOP) {
            assert_ok(json_parse(&j, buf_span(&text), "text", &e), &e);
            assert_in_range(json_int(json_get(j, "id"), 0), 10, 99);
            assert_in_range(json_count(json_get(j, "list")), 3, 6);
            for (const json *m = json_first(json_get(j, "list")); m; m = json_next(m))
                assert_true(!strcmp(json_str(m, ""), "red") || !strcmp(json_str(m, ""), "blue"));
            json_free(j);
            whole++;
        } else {
            assert_int_equal(a[i].finish, FINISH_LENGTH);
        }
        buf_free(&text);
        token_list_free(&a[i].ids);
    }
    assert_true(whole >= SEEDS / 2);
    grammar_drop(form);
}

/* Calls of two tools. */
static grammar *calls_form(void)
{
    return form_of(
        FORM_CALLS,
        "{\"form\":[{\"before\":\"{\\\"f\\\":\",\"after\":\"}\",\"schema\":{\"properties\":"
        "{\"a\":{\"type\":\"integer\",\"minimum\":1.0},\"b\":{\"enum\":[\"\\u00e9\",null,1e1]}},"
        "\"required\":[\"a\"],\"additionalProperties\":false}},{\"before\":\"{\\\"g\\\":\",\"after\":\"}\"}],"
        "\"between\":\", \",\"several\":true}");
}

/* The same in tags. */
static grammar *tags_form(void)
{
    return form_of(
        FORM_CALLS,
        "{\"form\":[{\"before\":\"<f>\",\"after\":\"</f>\",\"schema\":{\"properties\":{\"a\":{\"type\":\"integer\"},"
        "\"s\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":9},\"o\":{\"type\":[\"string\",\"null\"]}},"
        "\"required\":[\"s\"]}},{\"before\":\"<g>\",\"after\":\"</g>\"}],\"between\":\" \",\"several\":true,"
        "\"key\":\"<p=\",\"value\":\">\",\"end\":\"</p>\\n\"}");
}

/* What a receipt says of the form is enough to draw the text again. */
static void check_receipts_of(grammar *form)
{
    answer a;
    fingerprint here;
    err e = {0};
    assert_ok(engine_fingerprint(g, &here, &e), &e);
    for (int seed = 0; seed < 4; seed++) {
        json *to = json_new_object(), *from;
        buf text = {0};
        receipt r;
        replay found;
        ask(form, seed, 60, 0, &a);
        run();
        assert_ok(receipt_check_query(&here, &last, &e), &e);
        receipt_write(to, g, &here, &last, a.ids.id, a.ids.n,
                      a.finish == FINISH_STOP ? RECEIPT_END_TOKEN : RECEIPT_LENGTH);
        assert_true(json_print(&text, to, false));
        assert_ok(json_parse(&from, buf_span(&text), "receipt", &e), &e);
        assert_ok(receipt_read(&r, from, &here, g, &e), &e);
        assert_ok(engine_replay(g, &r.q, r.ids.id, r.ids.n, r.ended, &found, &e), &e);
        assert_int_equal(found.at, -1);
        r.q.constraint = NULL; /* without the form other tokens are drawn */
        assert_ok(engine_replay(g, &r.q, r.ids.id, r.ids.n, r.ended, &found, &e), &e);
        assert_true(found.at >= 0);
        receipt_free(&r);
        json_free(to);
        json_free(from);
        buf_free(&text);
        token_list_free(&a.ids);
    }
    grammar_drop(form);
}

static void receipts_name_the_form(void **state)
{
    (void)state;
    check_receipts_of(schema_form());
    check_receipts_of(calls_form());
    check_receipts_of(tags_form());
}

/* Guesses change no text. */
static void drafts_change_nothing(void **state)
{
    (void)state;
    enum { SEEDS = 12 };
    answer a[SEEDS], b;
    err e = {0};
    engine *plain = g, *guessing;
    grammar *form = schema_form();
    for (int i = 0; i < SEEDS; i++) ask(form, i - 1, 90, 0, &a[i]);
    run();
    grammar_drop(form);
    assert_ok(engine_open(&guessing, &(engine_options){.model = "builtin", .draft = "ngram", .draft_max = 6}, &e), &e);
    g = guessing;
    form = schema_form();
    for (int i = 0; i < SEEDS; i++) {
        ask(form, i - 1, 90, 0, &b);
        run();
        assert_int_equal(b.finish, a[i].finish);
        assert_int_equal(b.ids.n, a[i].ids.n);
        assert_memory_equal(b.ids.id, a[i].ids.id, b.ids.n * sizeof *b.ids.id);
        token_list_free(&a[i].ids);
        token_list_free(&b.ids);
    }
    grammar_drop(form);
    engine_close(guessing);
    g = plain;
}

/* A vocabulary that cannot spell a text ends it with an error, not with another text. */
static void nothing_is_drawn_beside_the_grammar(void **state)
{
    (void)state;
    answer a;
    grammar *form = gbnf("root ::= \"\\x01\\x02\" [\\U0010fff0-\\U0010ffff]");
    ask(form, 1, 20, 0, &a);
    run();
    if (a.finish == FINISH_ERROR) assert_non_null(strstr(a.error, "no token of the model's vocabulary"));
    else assert_int_equal(a.finish, FINISH_STOP);
    token_list_free(&a.ids);
    grammar_drop(form);
}

static void beams_are_refused(void **state)
{
    (void)state;
    err e = {0};
    int32_t id = 1;
    grammar *form = gbnf("root ::= \"a\"");
    query q = {.ids = &id, .n_ids = 1, .max_tokens = 4, .n_logprobs = -1, .beams = 2, .constraint = form};
    param_defaults(sample_param_rows, sample_param_count, &q.sample);
    assert_int_equal(engine_add_query(g, &q, NULL, &e), ERR_USAGE);
    grammar_drop(form);
}

static int open_engine(void **state)
{
    (void)state;
    err e = {0};
    assert_ok(engine_open(&g, &(engine_options){.model = "builtin"}, &e), &e);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    engine_close(g);
    token_list_free(&prompt);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_whole_or_cut),   cmocka_unit_test(ends_are_told_apart),
        cmocka_unit_test(json_keeps_to_its_schema), cmocka_unit_test(receipts_name_the_form),
        cmocka_unit_test(drafts_change_nothing),    cmocka_unit_test(nothing_is_drawn_beside_the_grammar),
        cmocka_unit_test(beams_are_refused),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
