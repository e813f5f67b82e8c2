/* t_serve_embeddings.c - POST /v1/embeddings and /v1/rerank without sockets, on the engine of fake_engine.h. */
#include "tests/serve_rig.h"

#include "base/base64.h"

#include <math.h>

static const char *const path = "/v1/embeddings";

static double length_of(const json *vector)
{
    double sum = 0;
    for (const json *v = json_first(vector); v; v = json_next(v)) sum += json_num(v, 0) * json_num(v, 0);
    return sqrt(sum);
}

static void a_reply_has_the_shape_of_the_api(void **state)
{
    (void)state;
    assert_int_equal(call("POST", path, "{\"input\":\"abc\",\"model\":\"fake\",\"user\":\"u\"}"), 200);
    json *j = parsed();
    const json *d = json_get(j, "data"), *u = json_get(j, "usage");
    assert_string_equal(json_str(json_get(j, "object"), ""), "list");
    assert_string_equal(json_str(json_get(j, "model"), ""), "fake");
    assert_int_equal(json_count(d), 1);
    assert_string_equal(json_str(json_get(json_at(d, 0), "object"), ""), "embedding");
    assert_int_equal(json_int(json_get(json_at(d, 0), "index"), -1), 0);
    assert_int_equal(json_count(json_get(json_at(d, 0), "embedding")), FAKE_POOLED);
    assert_true(fabs(length_of(json_get(json_at(d, 0), "embedding")) - 1) < 1e-6);
    assert_int_equal(json_int(json_get(u, "prompt_tokens"), 0), 4);
    assert_int_equal(json_int(json_get(u, "total_tokens"), 0), 4);
    assert_int_equal(json_int(json_path(u, "prompt_tokens_details.cached_tokens"), -1), 0);
    json_free(j);
}

/* Element k of embedding i. */
static double number_at(const json *j, size_t i, size_t k)
{
    return json_num(json_at(json_get(json_at(json_get(j, "data"), i), "embedding"), k), NAN);
}

static void inputs_of_every_form(void **state)
{
    (void)state;
    assert_int_equal(call("POST", path, "{\"input\":[\"ab\",\"\",\"a longer text\"]}"), 200);
    json *texts = parsed();
    assert_int_equal(json_count(json_get(texts, "data")), 3);
    assert_int_equal(call("POST", path, "{\"input\":[0,100,101]}"), 200); /* the ids of "ab" */
    json *ids = parsed();
    assert_int_equal(json_count(json_get(ids, "data")), 1);
    assert_int_equal(call("POST", path, "{\"input\":[[5,6],[0,100,101]]}"), 200);
    json *lists = parsed();
    for (size_t k = 0; k < FAKE_POOLED; k++) {
        assert_true(number_at(texts, 0, k) == number_at(ids, 0, k)); /* bits and all: printed exactly */
        assert_true(number_at(texts, 0, k) == number_at(lists, 1, k));
    }
    json_free(texts);
    json_free(ids);
    json_free(lists);
    static char many[1 << 16] = "{\"input\":[\"x\"";
    for (int i = 0; i < 700; i++) strcat(many, ",\"x\""); /* more than the engine takes at once */
    strcat(many, "]}");
    assert_int_equal(call("POST", path, many), 200);
    json *j = parsed();
    assert_int_equal(json_count(json_get(j, "data")), 701);
    assert_int_equal(json_int(json_path(j, "usage.prompt_tokens"), 0), 1402);
    json_free(j);
}

static void base64_and_dimensions(void **state)
{
    (void)state;
    static const int sizes[] = {1, 3, 5, FAKE_POOLED};
    for (size_t s = 0; s < 4; s++) {
        char body[200];
        buf raw = {0};
        snprintf(body, sizeof body, "{\"input\":\"hello\",\"dimensions\":%d,\"encoding_format\":\"base64\"}", sizes[s]);
        assert_int_equal(call("POST", path, body), 200);
        json *j = parsed();
        assert_true(
            base64_decode(span_str(json_str(json_get(json_at(json_get(j, "data"), 0), "embedding"), "")), &raw));
        json_free(j);
        assert_int_equal(raw.n, 4 * sizes[s]);
        snprintf(body, sizeof body, "{\"input\":\"hello\",\"dimensions\":%d,\"encoding_format\":\"float\"}", sizes[s]);
        assert_int_equal(call("POST", path, body), 200);
        j = parsed();
        assert_int_equal(json_count(json_get(json_at(json_get(j, "data"), 0), "embedding")), sizes[s]);
        double length = 0;
        for (int k = 0; k < sizes[s]; k++) {
            float v;
            memcpy(&v, raw.p + 4 * k, 4);
            assert_true((float)number_at(j, 0, (size_t)k) == v);
            length += (double)v * v;
        }
        assert_true(length == 0 || fabs(length - 1) < 1e-6); /* of unit length again */
        json_free(j);
        buf_free(&raw);
    }
}

/* Texts that are longer than the model takes are cut, which the reply tells by their numbers. */
static void long_texts_are_cut(void **state)
{
    (void)state;
    char body[700], text[201];
    memset(text, 'a', 200);
    text[200] = 0;
    snprintf(body, sizeof body, "{\"input\":[\"%s\",\"short\",\"%s\"]}", text, text);
    assert_int_equal(call("POST", path, body), 200);
    json *j = parsed();
    const json *cut = json_get(j, "truncated");
    assert_int_equal(json_count(cut), 2);
    assert_int_equal(json_int(json_at(cut, 0), -1), 0);
    assert_int_equal(json_int(json_at(cut, 1), -1), 2);
    json_free(j);
    assert_int_equal(call("POST", path, "{\"input\":\"short\"}"), 200);
    j = parsed();
    assert_int_equal(json_type(json_get(j, "truncated")), JSON_NULL);
    json_free(j);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *at, *code;
        int status;
    } bad[] = {
        {"{}", "input", NULL, 400},
        {"{\"input\":3}", "input", NULL, 400},
        {"{\"input\":[]}", "input", NULL, 400},
        {"{\"input\":[[]]}", "input", NULL, 400},
        {"{\"input\":[\"a\",3]}", "input", NULL, 400},
        {"{\"input\":[1,\"a\"]}", "input", NULL, 400},
        {"{\"input\":[1,259]}", "input", NULL, 400},
        {"{\"input\":[1.5]}", "input", NULL, 400},
        {"{\"input\":{\"a\":1}}", "input", NULL, 400},
        {"{\"input\":\"a\",\"dimensions\":0}", "dimensions", "out_of_range", 400},
        {"{\"input\":\"a\",\"dimensions\":9}", "dimensions", "out_of_range", 400},
        {"{\"input\":\"a\",\"encoding_format\":\"int8\"}", "encoding_format", "invalid_value", 400},
        {"{\"input\":\"a\",\"model\":\"other\"}", "model", "model_not_found", 404},
        {"{\"input\":\"a\",\"temperature\":1}", "temperature", "unknown_field", 400},
        {"{\"input\":\"a\",}", NULL, "invalid_json", 400},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_error(bad[i].status, call("POST", path, bad[i].body), bad[i].at, bad[i].code);
    buf many = {0}; /* ids are not cut */
    buf_str(&many, "{\"input\":[1");
    for (int i = 0; i < 200; i++) buf_str(&many, ",1");
    buf_str(&many, "]}");
    expect_error(400, call("POST", path, buf_cstr(&many)), "input", "context_length_exceeded");
    buf_free(&many);
    fake.waiting = 5000;
    expect_error(429, call("POST", path, "{\"input\":\"a\"}"), NULL, "queue_full");
    fake.waiting = 0;
    fake.fail_at = 1;
    expect_error(500, call("POST", path, "{\"input\":[\"a\",\"b\"]}"), NULL, NULL);
    expect_part("the device is on fire");
    fake.fail_at = 0;
    fake.no_tokenizer = true;
    expect_error(400, call("POST", path, "{\"input\":\"a\"}"), "input", NULL);
    assert_int_equal(call("POST", path, "{\"input\":[5]}"), 200);
    fake.no_tokenizer = false;
}

static void documents_are_ranked(void **state)
{
    (void)state;
    const char *const documents = "\"query\":\"aaa\",\"documents\":[\"xay\",\"none\",{\"text\":\"aaaa\"},\"a\\\"a\"]";
    char body[300];
    snprintf(body, sizeof body, "{%s,\"return_documents\":true}", documents);
    assert_int_equal(call("POST", "/v1/rerank", body), 200);
    json *j = parsed();
    const json *r = json_get(j, "results");
    static const int order[] = {2, 3, 0, 1}, letters[] = {4, 2, 1, 0};
    assert_int_equal(json_count(r), 4);
    for (size_t i = 0; i < 4; i++) {
        const json *one = json_at(r, i);
        assert_int_equal(json_int(json_get(one, "index"), -1), order[i]);
        assert_true(fabs(json_num(json_get(one, "relevance_score"), 0) - 1 / (1 + exp(1.0 - letters[i]))) < 1e-6);
    }
    assert_string_equal(json_str(json_path(json_at(r, 1), "document.text"), ""), "a\"a");
    assert_int_equal(json_int(json_path(j, "usage.total_tokens"), 0), 5 * 4 + 3 + 4 + 4 + 3);
    json_free(j);
    snprintf(body, sizeof body, "{%s,\"top_n\":2,\"model\":\"fake\"}", documents);
    assert_int_equal(call("POST", "/v1/rerank", body), 200);
    j = parsed();
    assert_int_equal(json_count(json_get(j, "results")), 2);
    assert_null(json_get(json_at(json_get(j, "results"), 0), "document"));
    json_free(j);
    static const char *const bad[][2] = {{"{\"documents\":[\"a\"]}", "query"},
                                         {"{\"query\":\"a\"}", "documents"},
                                         {"{\"query\":\"a\",\"documents\":[]}", "documents"},
                                         {"{\"query\":\"a\",\"documents\":[1]}", "documents"},
                                         {"{\"query\":\"a\",\"documents\":\"b\"}", "documents"},
                                         {"{\"query\":\"a\",\"documents\":[\"b\"],\"top_n\":0}", "top_n"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_error(400, call("POST", "/v1/rerank", bad[i][0]), bad[i][1], NULL);
}

/* Models that cannot do it say so. */
static void other_models(void **state)
{
    (void)state;
    stop_server();
    fake.no_pooled = true;
    fake.n_score = 3;
    start_server();
    expect_error(400, call("POST", path, "{\"input\":\"a\"}"), "model", "no_embeddings");
    expect_error(400, call("POST", path, "{\"input\":\"a\",\"inputs\":1}"), "inputs", "unknown_field");
    expect_error(400, call("POST", "/v1/rerank", "{\"query\":\"a\",\"docs\":[\"b\"]}"), "docs", "unknown_field");
    expect_error(400, call("POST", "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}"), "model", "no_scores");
    stop_server();
    fake.n_score = 0;
    start_server();
    expect_error(400, call("POST", "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}"), "model", "no_scores");
    stop_server();
    fake.no_pooled = false;
    fake.n_score = 2; /* sigmoid of the difference */
    start_server();
    assert_int_equal(call("POST", "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"aaa\"]}"), 200);
    json *j = parsed();
    double got = json_num(json_get(json_first(json_get(j, "results")), "relevance_score"), 0);
    assert_true(fabs(got - 1 / (1 + exp(2.0))) < 1e-6);
    json_free(j);
    fake.n_score = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_the_shape_of_the_api),
        cmocka_unit_test(inputs_of_every_form),
        cmocka_unit_test(base64_and_dimensions),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(documents_are_ranked),
        cmocka_unit_test(other_models),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
