/* t_models_builtin.c - the built-in model against transformers: ids, largest logits and greedy continuations of
 * tests/vectors/builtin.json, which tools/export_builtin.py makes from the same file; and what the README promises of
 * it (context, chat template). */
#include "base/json.h"
#include "measure/evaluate.h"

#include "test.h"

#include <math.h>

typedef struct check {
    const json *greedy, *top; /* what transformers found */
    int64_t last;             /* row of the last id of the prompt */
    int64_t rows;             /* rows compared */
    int32_t n_vocab;
} check;

static int32_t likeliest(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static int compare_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)e;
    check *c = ctx;
    for (int64_t r = first; r < first + n; r++) {
        const float *logits = rows + (r - first) * c->n_vocab;
        if (r == c->last)
            for (const json *t = json_first(c->top); t; t = json_next(t)) {
                double want = json_num(json_at(t, 1), NAN);
                assert_true(fabs(logits[json_int(json_at(t, 0), 0)] - want) < 1e-3);
            }
        const json *want = r >= c->last ? json_at(c->greedy, (size_t)(r - c->last)) : NULL;
        if (!want) continue;
        assert_int_equal(likeliest(logits, c->n_vocab), json_int(want, -1));
        c->rows++;
    }
    return 0;
}

static void add_ids(token_list *to, const json *list)
{
    for (const json *i = json_first(list); i; i = json_next(i))
        assert_true(token_list_add(to, (int32_t)json_int(i, -1)));
}

static void compare_case(engine *g, const json *j)
{
    err e = {0};
    const char *prompt = json_str(json_get(j, "prompt"), NULL);
    bool chat = json_get(j, "messages") != NULL;
    token_list got = {0}, want = {0};
    buf text = {0};
    assert_non_null(prompt);
    add_ids(&want, json_get(j, "ids"));
    assert_ok(tokenizer_encode(engine_tokenizer(g), (span){(const uint8_t *)prompt, strlen(prompt)},
                               chat ? TOKENIZE_PARSE : TOKENIZE_SPECIAL, &got, &e),
              &e);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.id, want.id, want.n * sizeof *want.id);

    check c = {.greedy = json_get(j, "greedy"), .top = json_get(j, "top"), .last = (int64_t)want.n - 1};
    size_t n_prompt = want.n;
    c.n_vocab = engine_describe(g)->n_vocab;
    add_ids(&want, c.greedy);
    assert_ok(engine_eval(g, want.id, want.n, -1, compare_rows, &c, &e), &e);
    assert_int_equal(c.rows, json_count(c.greedy));

    assert_ok(tokenizer_decode(engine_tokenizer(g), want.id + n_prompt, want.n - n_prompt, DETOKENIZE_SKIP_SPECIAL,
                               &text, &e),
              &e);
    assert_string_equal(buf_cstr(&text), json_str(json_get(j, "text"), ""));
    token_list_free(&got);
    token_list_free(&want);
    buf_free(&text);
}

static void equals_transformers(void **unused)
{
    (void)unused;
    err e = {0};
    engine *g;
    json *root;
    int cases = 0;
    assert_ok(json_read(&root, "tests/vectors/builtin.json", 1 << 20, &e), &e);
    assert_ok(engine_open(&g, &(engine_options){.model = "builtin", .weights = "f32", .kv = "f32"}, &e), &e);
    for (const json *j = json_first(json_get(root, "cases")); j; j = json_next(j), cases++) compare_case(g, j);
    assert_true(cases >= 8);
    assert_true(engine_describe(g)->ctx >= 2048);
    engine_close(g);
    json_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
