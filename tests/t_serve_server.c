/* t_serve_server.c - the server around its routes, without sockets: heads, keys, pages from elsewhere, slow readers,
 * loading, stopping. */
#include "tests/serve_rig.h"

#include "base/file.h"
#include "base/log.h"
#include "serve/fields.h"
#include "serve/reply_form.h"

#include <fcntl.h>

static const char *header_of(const char *name)
{
    for (int i = 0; i < last.n_header; i++)
        if (strcmp(last.header[i].name, name) == 0) return last.header[i].value;
    return NULL;
}

static void every_route_is_found_and_documented(void **state)
{
    (void)state;
    buf readme = {0};
    err e = {0};
    assert_ok(file_read(&readme, "src/serve/README.md", 1 << 20, &e), &e);
    for (int i = 0; i < route_count; i++) {
        const route *r = route_all[i];
        char text[100];
        exchange x = {.method = r->method, .path = r->path, .content_length = -1};
        assert_true(exchange_admit(&srv, &x) && x.endpoint == r && r->handle);
        snprintf(text, sizeof text, "%s %s", r->method, r->path);
        if (!strstr(buf_cstr(&readme), text)) fail_msg("src/serve/README.md does not name %s", text);
        expect_error(405, call(strcmp(r->method, "GET") == 0 ? "POST" : "GET", r->path, NULL), NULL,
                     "method_not_allowed");
        assert_memory_equal(header_of("Allow"), r->method, strlen(r->method));
        expect_error(405, call("DELETE", r->path, NULL), NULL, "method_not_allowed");
        snprintf(text, sizeof text, "%sx", r->path);
        if (strcmp(r->path, "/") == 0) continue;
        expect_error(404, call(r->method, text, NULL), NULL,
                     strcmp(r->path, "/v1/models/{id}") == 0 ? "model_not_found" : "not_found");
        for (size_t k = 0; k < 3; k++) { /* its other paths */
            const char *other = k < 2 ? r->also[k] : strncmp(r->path, "/v1/", 4) == 0 ? r->path + 3 : NULL;
            x = (exchange){.method = r->method, .path = other, .content_length = -1};
            assert_true(!other || (exchange_admit(&srv, &x) && x.endpoint == r));
        }
        if (strcmp(r->method, "POST") == 0) expect_error(400, call("POST", r->path, "{\"no_field\":1}"), NULL, NULL);
    }
    buf_free(&readme);
}

/* A number outside of a range, or NULL. */
static const char *beyond(const field *f, bool above)
{
    static char text[40];
    if (f->min == 0 && f->max == 0) return NULL;
    snprintf(text, sizeof text, "%.15g", above ? f->max + 1 : f->min - 1);
    return text;
}

static int send_field(const route *r, const char *name, const char *value)
{
    char body[200];
    snprintf(body, sizeof body, "{\"%s\":%s}", name, value);
    return call(r->method, r->path, body);
}

/* Every field of every endpoint: one name for one thing, types and ranges by its row, null for absent. */
static void every_field_is_read_by_its_row(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        [FIELD_INT] = "1.5", [FIELD_FLOAT] = "\"1\"", [FIELD_BOOL] = "1", [FIELD_TEXT] = "{}"};
    for (int i = 0; i < route_count; i++) {
        const route *r = route_all[i];
        assert_true(!r->fields == (strcmp(r->method, "GET") == 0));
        for (const field *f = r->fields; f && f->name; f++) {
            for (const field *g = f + 1; g->name; g++)
                assert_true(strcmp(f->name, g->name) != 0 && (!f->alias || strcmp(f->alias, g->name) != 0));
            assert_true(f->min <= f->max);
            const char *known = f->alias ? f->alias : f->name, *bad = f->type <= FIELD_TEXT ? wrong[f->type] : NULL;
            if (bad) expect_error(400, send_field(r, known, bad), known, "invalid_type"); /* as it was sent */
            for (int above = 0; above < 2; above++)
                if ((bad = beyond(f, above))) expect_error(400, send_field(r, known, bad), known, "out_of_range");
            send_field(r, known, "null");
            assert_null(strstr(reply, "unknown_field"));
        }
        if (r->fields) expect_error(400, send_field(r, "no_such_field", "1"), "no_such_field", "unknown_field");
    }
}

static bool has_field(const route *r, const char *name)
{
    for (const field *f = r->fields; f->name; f++)
        if (strcmp(f->name, name) == 0 && f->type != FIELD_IGNORE) return true;
    return false;
}

/* A reply form has what the fields of its route may ask it for. */
static void every_reply_form_is_whole(void **state)
{
    int n = 0;
    (void)state;
    for (int i = 0; i < route_count; i++) {
        const route *r = route_all[i];
        const reply_form *f = r->reply;
        assert_true(f || r->handle != completion_handle);
        if (!f) continue;
        n++;
        if (!f->prefix || !f->read_prompts || !f->events || !f->whole || !f->error)
            fail_msg("%s lacks a part", r->path);
        if (has_field(r, "return_progress") && !f->reading) fail_msg("%s does not say how far it has read", r->path);
        if (f->usage && !(f->object[0] && f->object[1])) fail_msg("chunks of %s have no object", r->path);
    }
    assert_int_equal(n, 6);
}

/* What clients send with every request and nobody here reads; null is nothing. */
static void fields_without_effect(void **state)
{
    (void)state;
    static const char *const fields[] = {"user",
                                         "metadata",
                                         "store",
                                         "service_tier",
                                         "safety_identifier",
                                         "verbosity",
                                         "prediction",
                                         "prompt_cache_key",
                                         "prompt_cache_retention",
                                         "modalities",
                                         "prompt_cache_options",
                                         "parallel_tool_calls"};
    char text[200];
    fake.text = "hello";
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        snprintf(text, sizeof text, "\"%s\":%s", fields[i], strcmp(fields[i], "modalities") ? "\"x\"" : "[ \"text\" ]");
        assert_int_equal(post(text), 200);
        snprintf(text, sizeof text, "\"%s\":null", fields[i]);
        assert_int_equal(post(text), 200);
    }
    assert_int_equal(post("\"stop\":null,\"stream\":null,\"n\":null,\"logit_bias\":null,\"stream_options\":null"), 200);
    expect_error(400, post("\"modalities\":[\"text\",\"audio\"]"), "modalities", "unsupported");
    expect_error(400, post("\"documents\":[]"), "documents", "unknown_field");
    expect_part("is a field of /v1/rerank, not of /v1/completions");
    expect_error(400, post("\"stream\":true,\"stream_options\":{\"documents\":1}"), "documents", "unknown_field");
    fake.text = NULL;
}

static void heads_are_judged(void **state)
{
    (void)state;
    expect_error(404, call("GET", "/nothing", NULL), NULL, "not_found");
    expect_error(405, call("GET", "/v1/completions", NULL), NULL, "method_not_allowed");
    assert_non_null(header_of("Allow"));
    expect_error(405, call("DELETE", "/health", NULL), NULL, "method_not_allowed");
    assert_int_equal(call("HEAD", "/health", NULL), 200);
    assert_int_equal(call("GET", "http://some.host/health", NULL), 200);
    assert_int_equal(call("OPTIONS", "/v1/completions", NULL), 204);
    opt.max_body = 10;
    expect_error(413, post(""), NULL, "body_too_large");
    opt.max_body = 8 << 20;
    expect_error(404, post("\"model\":\"gpt-5\""), "model", "model_not_found");
    assert_int_equal(post("\"model\":\"fake\""), 200);
    static const char *const text[] = {"",
                                       "[]",
                                       "{",
                                       "{\"prompt\":\"a\",\"prompt\":\"b\"}",
                                       "{\"prompt\":\"a\"} x",
                                       "{\"prompt\":\"a\nb\"}",
                                       "{\"prompt\":\"\\u0000\"}",
                                       "{\"prompt\":\"\xff\"}",
                                       "{\"prompt\":\"a\",\"seed\":NaN}",
                                       "{\"prompt\":\"a\",\"seed\":1e400}",
                                       "\"x\"",
                                       "{\"prompt\":\"\\ud800\"}",
                                       "null"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        expect_error(400, call("POST", "/v1/completions", text[i]), NULL, "invalid_json");
    atomic_store(&srv.draining, true);
    expect_error(503, post(""), NULL, "shutting_down");
    atomic_store(&srv.draining, false);
}

static void pages_from_elsewhere(void **state)
{
    (void)state;
    static const char *const good[] = {"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443",
                                       "http://[::1]:1"};
    static const char *const bad[] = {"http://evil.example",           "null",    "http://localhost.evil.example",
                                      "http://127.0.0.1.evil.example", "file://", "http://127.0.0.2"};
    for (size_t i = 0; i < 4; i++) {
        last = (exchange){.origin = good[i]};
        assert_int_equal(call("OPTIONS", "/v1/completions", NULL), 204);
        assert_string_equal(header_of("Access-Control-Allow-Origin"), good[i]);
        assert_non_null(strstr(header_of("Access-Control-Allow-Headers"), "authorization"));
        assert_non_null(strstr(header_of("Access-Control-Allow-Headers"), "content-type"));
        const char *wanted = "authorization,content-type,x-stainless-os,x-stainless-retry-count";
        last = (exchange){.origin = good[i], .wanted_headers = wanted};
        assert_int_equal(call("OPTIONS", "/v1/completions", NULL), 204);
        assert_string_equal(header_of("Access-Control-Allow-Headers"), wanted);
        last = (exchange){.origin = good[i]};
        assert_int_equal(post(""), 200);
        assert_string_equal(header_of("Access-Control-Allow-Origin"), good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        last = (exchange){.origin = bad[i]};
        assert_int_equal(call("OPTIONS", "/v1/completions", NULL), 403);
        assert_null(header_of("Access-Control-Allow-Origin"));
        assert_null(header_of("Access-Control-Allow-Headers"));
        last = (exchange){.origin = bad[i], .host = "evil.example"};
        assert_int_equal(post(""), 403);
        last = (exchange){.origin = bad[i]};
        assert_int_equal(call("GET", "/v1/models", NULL), 200);
        assert_null(header_of("Access-Control-Allow-Origin"));
    }
    opt.cors_origin = "https://a.example, http://evil.example";
    last = (exchange){.origin = "http://evil.example"};
    assert_int_equal(post(""), 200);
    opt.cors_origin = NULL;
    srv.loopback = false; /* on a network, the server's own pages may use it */
    last = (exchange){.origin = "http://box:8080", .host = "box:8080"};
    assert_int_equal(post(""), 200);
    last = (exchange){.origin = "http://evil.example", .host = "box:8080"};
    assert_int_equal(post(""), 403);
    srv.loopback = true;
}

/* Names that others may give to 127.0.0.1. */
static void foreign_hosts(void **state)
{
    (void)state;
    static const char *const own[] = {"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "127.0.0.1", ""};
    static const char *const foreign[] = {"evil.example", "evil.example:8080", "localhost.evil.example",
                                          "127.0.0.1.nip.io", "localhosts"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        last = (exchange){.host = own[i]};
        assert_int_equal(call("GET", "/v1/models", NULL), 200);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        last = (exchange){.host = foreign[i]};
        expect_error(403, call("GET", "/v1/models", NULL), NULL, "host_not_allowed");
        last = (exchange){.host = foreign[i]};
        expect_error(403, call("GET", "/nothing", NULL), NULL, "host_not_allowed");
        last = (exchange){.host = foreign[i]};
        assert_int_equal(call("OPTIONS", "/v1/models", NULL), 403);
        last = (exchange){.host = foreign[i]};
        assert_int_equal(call("GET", "/health", NULL), 200);
        last = (exchange){.host = foreign[i]};
        assert_int_equal(call("GET", "/ping", NULL), 200);
    }
    assert_int_equal(call("GET", "http://evil.example/v1/models", NULL), 403);
    assert_int_equal(call("GET", "http://localhost:8080/v1/models", NULL), 200);
    opt.cors_origin = "https://a.example, http://evil.example:8080";
    last = (exchange){.host = "evil.example"};
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    last = (exchange){.host = "b.evil.example"};
    assert_int_equal(call("GET", "/v1/models", NULL), 403);
    opt.cors_origin = "*";
    last = (exchange){.host = "b.evil.example"};
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    opt.cors_origin = NULL;
    last = (exchange){.host = "llm:8000"}; /* as a proxy passes it on */
    assert_int_equal(call("GET", "/v1/models", NULL), 403);
    expect_part("--allow-host llm\"");
    opt.allow_host = "box, llm";
    static const char *const allowed[] = {"llm", "LLM:8000", "box"}, *const others[] = {"llm.example", "ll", "b",
                                                                                        "llm:x"};
    for (int i = 0; i < 3; i++) {
        last = (exchange){.host = allowed[i]};
        assert_int_equal(call("GET", "/v1/models", NULL), 200);
    }
    for (int i = 0; i < 4; i++) {
        last = (exchange){.host = others[i]};
        assert_int_equal(call("GET", "/v1/models", NULL), 403);
    }
    opt.allow_host = NULL;
    opt.api_key_file = "keys"; /* a page that rebinds a name has no key */
    last = (exchange){.host = "evil.example"};
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    opt.api_key_file = NULL;
    last = (exchange){.origin = "http://localhost:80@evil.example"};
    assert_int_equal(call("POST", "/tokenize", "{\"content\":\"a\"}"), 403);
    srv.loopback = false;
    last = (exchange){.host = "box.example"};
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    srv.loopback = true;
}

static void requests_have_ids(void **state)
{
    (void)state;
    char made[EXCHANGE_ID + 1];
    static const char *const bad[] = {NULL, "", "two words", "\x01", "\xc3\xa9"};
    last = (exchange){.client_id = "abc-123"};
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    assert_string_equal(last.id, "abc-123");
    last = (exchange){.client_id = "abc-123"};
    assert_int_equal(call("GET", "/nothing", NULL), 404);
    assert_string_equal(last.id, "abc-123");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(made, last.id, sizeof made);
        last = (exchange){.client_id = bad[i]};
        assert_int_equal(call("GET", "/v1/models", NULL), 200);
        assert_string_equal(header_of("X-Request-Id"), last.id);
        assert_string_equal(header_of("Request-Id"), last.id);
        assert_memory_equal(last.id, "req-", 4);
        assert_string_not_equal(last.id, made);
    }
}

static void keys_are_asked_for(void **state)
{
    (void)state;
    err e = {0};
    const char *path = temp_path("keys");
    FILE *f = fopen(path, "w");
    fputs("# comment\n\n  first-key \nsecond\r\n", f);
    fclose(f);
    assert_ok(keys_read(&srv.keys, path, &e), &e);
    assert_int_equal(srv.keys.n, 2);
    static const char *const wrong[] = {NULL,
                                        "",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer first-ke",
                                        "Bearer first-keyy",
                                        "Basic first-key",
                                        "first-key",
                                        "Bearer # comment"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        last = (exchange){.authorization = wrong[i]};
        expect_error(401, post(""), NULL, "invalid_api_key");
        assert_null(strstr(reply, "first"));
        last = (exchange){.authorization = wrong[i]};
        assert_int_equal(call("GET", "/v1/models", NULL), 401);
        last = (exchange){.authorization = wrong[i]};
        assert_int_equal(call("GET", "/nothing", NULL), 401);
    }
    engine_peer node = {.name = "a:7071", .node = "n", .detail = "d"}; /* who has no key sees the status alone */
    fake.peer = &node;
    assert_int_equal(call("GET", "/health", NULL), 200);
    assert_string_equal(reply, "{\"status\":\"ok\"}");
    last = (exchange){.authorization = "Bearer first-key"};
    assert_int_equal(call("GET", "/health", NULL), 200);
    expect_part("\"peer\":\"a:7071\"");
    fake.peer = NULL;
    assert_int_equal(call("OPTIONS", "/v1/models", NULL), 204);
    last = (exchange){.authorization = "Bearer first-key"};
    assert_int_equal(post(""), 200);
    last = (exchange){.api_key = "first-key"};
    assert_int_equal(post(""), 200);
    last = (exchange){.api_key = "third"};
    assert_int_equal(post(""), 401);
    last = (exchange){.authorization = "bearer second"};
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    keys_free(&srv.keys);
    f = fopen(path, "w");
    fputs("first-key  # Team of Ann\nsecond\nwith a blank#1\n", f);
    fclose(f);
    assert_ok(keys_read(&srv.keys, path, &e), &e);
    char made[24];
    assert_string_equal(keys_name(&srv.keys, keys_find(&srv.keys, "first-key"), made), "Team of Ann");
    assert_string_equal(keys_name(&srv.keys, keys_find(&srv.keys, "second"), made), "key 2");
    assert_int_equal(keys_find(&srv.keys, "first-key  # Team of Ann"), -1);
    assert_int_equal(keys_find(&srv.keys, "with a blank#1"), 2); /* as before there were names */
    assert_int_equal(keys_find(&srv.keys, "with"), -1);
    keys_free(&srv.keys);
    f = fopen(path, "w");
    fputs("# nothing\n", f);
    fclose(f);
    assert_int_equal(keys_read(&srv.keys, path, &e), ERR_USAGE);
    unlink(path);
}

/* What one request writes to standard error. */
static const char *logged(const char *method, const char *path, const char *body)
{
    static char text[4096];
    const char *file = temp_path("log");
    int old = dup(STDERR_FILENO), fd = open(file, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(old >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    call(method, path, body);
    dup2(old, STDERR_FILENO);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(old);
    close(fd);
    unlink(file);
    return text;
}

static void each_request_is_a_line(void **state)
{
    (void)state;
    const char *body = "{\"prompt\":\"a secret\",\"max_tokens\":5}";
    fake.text = "answer";
    last = (exchange){.client_id = "id-7", .authorization = "Bearer sk-key"};
    const char *line = logged("POST", "/v1/completions", body);
    assert_memory_equal(line, "id-7 POST /v1/completions 200 9 + 5 tokens length 0.", 52);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_true(!strstr(line, "secret") && !strstr(line, "sk-key") && !strstr(line, "answ"));
    log_set_json(true);
    last = (exchange){.client_id = "id-\"8"};
    line = logged("POST", "/v1/completions", body);
    json *j;
    err e = {0};
    assert_ok(json_parse(&j, span_of(line, strlen(line) - 1), "log", &e), &e);
    assert_string_equal(json_str(json_get(j, "id"), ""), "id-\"8");
    assert_string_equal(json_str(json_get(j, "path"), ""), "/v1/completions");
    assert_int_equal(json_int(json_get(j, "status"), 0), 200);
    assert_int_equal(json_int(json_get(j, "prompt_tokens"), 0), 9);
    assert_int_equal(json_int(json_get(j, "generated_tokens"), 0), 5);
    assert_string_equal(json_str(json_get(j, "finish_reason"), ""), "length");
    assert_true(json_num(json_get(j, "first_token_seconds"), -1) > 0);
    assert_int_equal(strlen(json_str(json_get(j, "time"), "")), strlen("2026-11-23T16:34:35.963Z"));
    json_free(j);
    opt.lenient = true; /* other lines too */
    line = logged("POST", "/tokenize", "{\"content\":\"a\",\"a\\\\\\\"b\":1}");
    assert_ok(json_parse(&j, span_of(line, strcspn(line, "\n")), "log", &e), &e);
    assert_string_equal(json_str(json_get(j, "message"), ""), "/tokenize: field \"a\\\"b\" ignored");
    json_free(j);
    opt.lenient = false;
    log_set_json(false);
    assert_memory_equal(logged("GET", "/no\n/such", NULL), "req-", 4);
    snprintf(last.key_name, sizeof last.key_name, "%s", "");
    assert_string_equal(logged("GET", "/health", NULL), ""); /* asked all the time */
    fake.text = NULL;
}

static void tokenize_and_back(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/tokenize", "{\"content\":\"a<|x|>\"}"), 200); /* as /completion reads it */
    assert_string_equal(reply, "{\"tokens\":[100,2]}");
    assert_int_equal(call("POST", "/tokenize", "{\"content\":\"a<|x|>\",\"parse_special\":false}"), 200);
    assert_string_equal(reply, "{\"tokens\":[100,63,127,123,127,65]}");
    assert_int_equal(call("POST", "/tokenize", "{\"content\":\"a<|x|>\",\"add_special\":true,\"parse_special\":true}"),
                     200);
    assert_string_equal(reply, "{\"tokens\":[0,100,2]}");
    assert_int_equal(call("POST", "/tokenize", "{\"content\":\"\\u00e9\",\"add_special\":true,\"with_pieces\":true}"),
                     200);
    assert_string_equal(
        reply, "{\"tokens\":[{\"id\":0,\"piece\":\"<s>\"},{\"id\":198,\"piece\":[195]},{\"id\":172,\"piece\":[169]}]}");
    assert_int_equal(call("POST", "/detokenize", "{\"tokens\":[100,2,198,172]}"), 200);
    assert_string_equal(reply, "{\"content\":\"a<|x|>\xc3\xa9\",\"prompt\":\"a<|x|>\xc3\xa9\"}");
    assert_int_equal(call("POST", "/tokenize", "{\"prompt\":\"ab\",\"model\":\"fake\"}"), 200);
    assert_string_equal(reply, "{\"count\":3,\"max_model_len\":128,\"tokens\":[0,100,101],\"token_strs\":null}");
    assert_int_equal(
        call("POST", "/tokenize", "{\"prompt\":\"<|x|>\",\"add_special_tokens\":false,\"return_token_strs\":true}"),
        200);
    expect_part("\"tokens\":[2],\"token_strs\":[\"<|x|>\"]}");
    assert_int_equal(call("POST", "/tokenize", "{\"prompt\":\"<|x|>\",\"parse_special\":false}"), 200);
    expect_part("\"count\":6");
    expect_error(400, call("POST", "/tokenize", "{\"prompt\":\"a\",\"parse_special\":1}"), "parse_special", NULL);
    expect_error(404, call("POST", "/tokenize", "{\"prompt\":\"ab\",\"model\":\"b\"}"), "model", "model_not_found");
    assert_int_equal(call("GET", "/tokenizer_info", NULL), 200);
    expect_part("\"vocab_size\":259");
    assert_int_equal(call("POST", "/detokenize", "{\"tokens\":[]}"), 200);
    expect_error(400, call("POST", "/tokenize", "{}"), "content", NULL);
    expect_error(400, call("POST", "/tokenize", "{\"content\":5}"), "content", NULL);
    expect_error(400, call("POST", "/tokenize", "{\"content\":\"a\",\"prompt\":\"b\"}"), "prompt", NULL);
    expect_error(400, call("POST", "/detokenize", "{}"), "tokens", NULL);
    expect_error(400, call("POST", "/detokenize", "{\"tokens\":[1,\"2\"]}"), "tokens", NULL);
    expect_error(400, call("POST", "/detokenize", "{\"tokens\":[5,259]}"), "tokens", NULL);
    expect_part("259 is no token id (0 to 258)");
    expect_error(400, call("POST", "/detokenize", "{\"tokens\":[-7]}"), "tokens", NULL);
    expect_part("-7 is no token id");
    expect_error(400, call("POST", "/detokenize", "{\"tokens\":[1e15]}"), "tokens", NULL);
    expect_part("1000000000000000 is no token id");
    fake.no_tokenizer = true;
    expect_error(400, call("POST", "/tokenize", "{\"content\":\"a\"}"), NULL, "no_tokenizer");
    expect_error(400, call("POST", "/detokenize", "{\"tokens\":[5]}"), NULL, "no_tokenizer");
    fake.no_tokenizer = false;
}

/* As --alias. */
static void call_model(const char *names)
{
    opt.alias = names;
    snprintf(srv.alias, sizeof srv.alias, "%.*s", names && *names != '*' ? (int)strcspn(names, ",") : 0,
             names ? names : "");
}

static void names_of_the_model(void **state)
{
    (void)state;
    fake.text = "hello";
    call_model("first, second");
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    expect_part("\"id\":\"first\"");
    expect_part("\"id\":\"second\"");
    assert_int_equal(post("\"model\":\"second\""), 200);
    expect_part("\"model\":\"first\"");
    assert_int_equal(post("\"model\":\"third\""), 404);
    assert_int_equal(post("\"model\":\"\""), 404);
    call_model("*");
    assert_int_equal(post("\"model\":\"gpt-4o\""), 200);
    expect_part("\"model\":\"fake\"");
    call_model(NULL);
    fake.text = NULL;
}

static void what_runs_here(void **state)
{
    (void)state;
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    expect_part("{\"object\":\"list\",\"data\":[{\"id\":\"fake\",\"object\":\"model\",\"created\":");
    assert_int_equal(call("GET", "/health", NULL), 200);
    assert_string_equal(reply, "{\"status\":\"ok\"}");
    assert_int_equal(call("GET", "/props", NULL), 200);
    expect_part("\"total_slots\":16");
    assert_int_equal(call("GET", "/v1/models/fake", NULL), 200);
    expect_part("{\"id\":\"fake\",\"object\":\"model\",\"created\":");
    expect_part("\"max_model_len\":128");
    expect_error(404, call("GET", "/v1/models/other", NULL), "model", "model_not_found");
    expect_error(404, call("GET", "/v1/models/", NULL), NULL, "not_found");
    assert_int_equal(call("GET", "/version", NULL), 200);
    expect_part("{\"version\":\"0.1.0\"");
    call_model("an/org 1");
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    expect_part("\"id\":\"an/org 1\"");
    assert_int_equal(call("GET", "/models/an%2Forg%201", NULL), 200);
    assert_int_equal(call("GET", "/v1/models/an/org%201", NULL), 200);
    call_model("mine");
    assert_int_equal(post("\"model\":\"mine\""), 200);
    call_model(NULL);
    assert_int_equal(call("GET", "/metrics", NULL), 200);
    static const char *const name[] = {"inferflow_prompt_tokens_total ",
                                       "inferflow_prompt_tokens_cached_total ",
                                       "inferflow_generation_tokens_total ",
                                       "inferflow_prefix_cache_queries_total ",
                                       "inferflow_prefix_cache_hits_total ",
                                       "inferflow_kv_pages{state=\"cached\"} ",
                                       "inferflow_requests_total{endpoint=\"/v1/models\",status=\"200\"}",
                                       "inferflow_requests_total{endpoint=\"other\",status=\"404\"}",
                                       "inferflow_requests_running ",
                                       "inferflow_requests_waiting ",
                                       "inferflow_kv_usage_ratio ",
                                       "inferflow_time_to_first_token_seconds_bucket{le=\"+Inf\"}",
                                       "inferflow_inter_token_seconds_count",
                                       "inferflow_queue_seconds_sum",
                                       "inferflow_request_duration_seconds_bucket{le=\"0.001\"}",
                                       "inferflow_prompt_tokens_bucket{le=\"1\"}",
                                       "inferflow_output_tokens_count ",
                                       "inferflow_build_info{version=\"0.1.0\",commit=\"",
                                       "inferflow_step_seconds_count ",
                                       "inferflow_steps_in_flight ",
                                       "inferflow_finished_total{reason=\"length\"} "};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) expect_part(name[i]);
    assert_null(strstr(reply, "vllm"));
    assert_null(strstr(reply, "peer"));
    engine_peer node = {.name = "a:7071",
                        .rtt_ms = 250,
                        .sent = {1, 2, 3},
                        .received = {4, 5, (uint64_t)1 << 53},
                        .wait = 6.5,
                        .kv_usage = 0.75};
    fake.peer = &node;
    assert_int_equal(call("GET", "/metrics", NULL), 200);
    static const char *const of_peers[] = {
        "inferflow_peer_up{peer=\"a:7071\"} 1\n",
        "inferflow_link_rtt_seconds{peer=\"a:7071\"} 0.25\n",
        "inferflow_link_wait_seconds_total{peer=\"a:7071\"} 6.5\n",
        "inferflow_node_kv_usage_ratio{peer=\"a:7071\"} 0.75\n",
        "inferflow_link_bytes_total{peer=\"a:7071\",direction=\"sent\",kind=\"step\"} 1\n",
        "inferflow_link_bytes_total{peer=\"a:7071\",direction=\"sent\",kind=\"weight\"} 3\n",
        "inferflow_link_bytes_total{peer=\"a:7071\",direction=\"received\",kind=\"data\"} 5\n",
        "inferflow_link_bytes_total{peer=\"a:7071\",direction=\"received\",kind=\"weight\"} 9007199254740992\n"};
    for (size_t i = 0; i < sizeof of_peers / sizeof *of_peers; i++) expect_part(of_peers[i]);
    fake.peer = NULL;
    opt.metrics_as = "vllm";
    call_model("a \"b\"");
    assert_int_equal(call("GET", "/metrics", NULL), 200);
    static const char *const vllm[] = {"num_requests_running",
                                       "num_requests_waiting",
                                       "kv_cache_usage_perc",
                                       "prefix_cache_queries_total",
                                       "prefix_cache_hits_total",
                                       "prompt_tokens_total",
                                       "generation_tokens_total",
                                       "time_to_first_token_seconds_count",
                                       "inter_token_latency_seconds_sum",
                                       "e2e_request_latency_seconds_count",
                                       "request_queue_time_seconds_sum",
                                       "num_preemptions_total",
                                       "spec_decode_num_draft_tokens_total",
                                       "spec_decode_num_accepted_tokens_total"};
    for (size_t i = 0; i < sizeof vllm / sizeof *vllm; i++) {
        char line[100];
        snprintf(line, sizeof line, "\nvllm:%s{model_name=\"a \\\"b\\\"\"} ", vllm[i]);
        expect_part(line);
    }
    expect_part("\nvllm:request_success_total{finished_reason=\"stop\",model_name=\"a \\\"b\\\"\"} ");
    expect_part("\nvllm:time_to_first_token_seconds_bucket{le=\"0.001\",model_name=\"a \\\"b\\\"\"} ");
    expect_part("\ninferflow_prompt_tokens_total ");
    opt.metrics_as = NULL;
    call_model(NULL);
    for (int i = 0; i < 1000; i++, usleep(1000)) { /* the last query may be about to go */
        assert_int_equal(call("GET", "/slots", NULL), 200);
        if (!strcmp(reply, "[]")) break;
    }
    assert_string_equal(reply, "[]");
}

/* Prompts are shared by requests of one key with the same cache_salt; without keys by all with the same salt. */
static void salts_tell_clients_apart(void **state)
{
    (void)state;
    static const char *const keys[] = {NULL, "Bearer k", "Bearer l", "Bearer k"}, *const texts[] = {NULL, "", "a", "k"};
    uint8_t salt[2][16][SALT_BYTES];
    for (int asked = 0; asked < 2; asked++) {
        opt.api_key_file = asked ? "keys" : NULL;
        for (int i = 0; i < 16; i++)
            exchange_salt(&srv, &(exchange){.authorization = keys[i / 4]}, texts[i % 4], salt[asked][i]);
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 16; k++) {
                const bool one_client = !asked || i / 4 == k / 4 || (i / 4) % 2 + (k / 4) % 2 == 2;
                assert_int_equal(!memcmp(salt[asked][i], salt[asked][k], SALT_BYTES), one_client && i % 4 == k % 4);
            }
    }
    exchange one = {.authorization = "Bearer k", .address = 1}, other = {.authorization = "Bearer l", .address = 2};
    assert_true(exchange_owner(&srv, &one) != exchange_owner(&srv, &other));
    one.address = 2;
    assert_true(exchange_owner(&srv, &one) != exchange_owner(&srv, &other));
    opt.api_key_file = NULL;
    assert_true(exchange_owner(&srv, &one) == exchange_owner(&srv, &other));
}

/* The page is one file, and its policy names its own style and script only. */
static void the_page(void **state)
{
    (void)state;
    assert_int_equal(call("GET", "/", NULL), 200);
    expect_part("<html lang=\"en\">");
    assert_true(!strstr(reply, "http://") && !strstr(reply, "https://") && !strstr(reply, "innerHTML"));
    assert_true(!strstr(reply, " style=\"") && !strstr(reply, " onclick=\""));
    const char *policy = header_of("Content-Security-Policy");
    assert_true(strstr(policy, "default-src 'none'") && strstr(policy, "script-src 'sha256-") &&
                strstr(policy, "style-src 'sha256-") && !strstr(policy, "unsafe"));
}

static void a_slow_reader_pauses_its_own_query(void **state)
{
    (void)state;
    fake.text = NULL;
    engine_stats before, now;
    engine_get_stats(srv.g, &before);
    ((engine *)srv.g)->info.ctx = 1 << 20;
    const char *body = "{\"prompt\":\"a\",\"max_tokens\":100000,\"stream\":true}";
    exchange x = {
        .method = "POST", .path = "/v1/completions", .content_length = (int64_t)strlen(body), .body = span_str(body)};
    fake.paused = fake.resumed = 0;
    assert_true(exchange_admit(&srv, &x));
    exchange_handle(&srv, &x);
    stream *s = x.later;
    assert_non_null(s);
    for (int i = 0; i < 500 && !stream_is_full(s); i++) usleep(10000);
    assert_true(stream_is_full(s));
    usleep(50000);
    assert_int_equal(call("GET", "/slots", NULL), 200);
    expect_part("\"state\":\"paused\",\"prompt_tokens\":2,");
    size_t held = stream_waiting(s);
    assert_true(held >= STREAM_FULL && held < STREAM_FULL + 4096);
    assert_int_equal(fake.paused, 1);
    assert_int_equal(post("\"max_tokens\":4"), 200); /* others go on */
    assert_int_equal(stream_waiting(s), held);
    stream_attach(s, &(stream_waiter){NULL, fall_asleep, wake_up});
    static char part[1 << 18];
    while (stream_waiting(s) >= STREAM_LOW) stream_read(s, part, STREAM_LOW / 2);
    for (int i = 0; i < 500 && !stream_is_full(s); i++) usleep(10000); /* it goes on, and is full again */
    assert_true(fake.resumed >= 1);
    assert_true(stream_is_full(s));
    stream_leave(s); /* the client goes: the query ends */
    exchange_finish(&srv, &x, 499);
    stream_drop(s);
    for (int i = 0; i < 500; i++) {
        engine_get_stats(srv.g, &now);
        if (now.running == 0) break;
        usleep(10000);
    }
    assert_int_equal(now.running, 0);
    ((engine *)srv.g)->info.ctx = 128;
}

static void loading_and_failing(void **state)
{
    (void)state;
    stop_server();
    fake.load_ms = 300;
    err e = {0};
    static const engine_options model;
    assert_ok(server_open(&srv, &opt, &e), &e);
    srv.loopback = true;
    assert_ok(server_start(&srv, &model, NULL, NULL, &e), &e);
    expect_error(503, call("GET", "/health", NULL), NULL, "model_loading");
    assert_non_null(header_of("Retry-After"));
    expect_error(503, post(""), NULL, "model_loading");
    expect_error(503, call("POST", "/tokenize", "{\"content\":\"a\"}"), NULL, "model_loading");
    assert_int_equal(call("GET", "/v1/models", NULL), 200);
    assert_string_equal(reply, "{\"object\":\"list\",\"data\":[]}");
    assert_int_equal(call("GET", "/metrics", NULL), 200);
    assert_false(server_stop(&srv, 0.01)); /* busy loading */
    atomic_store(&srv.halt, false);
    atomic_store(&srv.draining, false);
    while (!atomic_load(&srv.g)) usleep(1000);
    assert_int_equal(call("GET", "/health", NULL), 200);
    stop_server();
    fake.load_ms = 0;
    fake.fail_open = ERR_NOT_FOUND;
    assert_ok(server_open(&srv, &opt, &e), &e);
    assert_ok(server_start(&srv, &model, NULL, NULL, &e), &e);
    while (atomic_load(&srv.state) == SERVER_LOADING) usleep(1000);
    assert_int_equal(atomic_load(&srv.state), SERVER_FAILED);
    assert_int_equal(srv.load_error.code, ERR_NOT_FOUND);
    stop_server();
    fake.fail_open = 0;
    start_server();
}

/* Queries that run when the server stops end with an error, not with silence. */
static void stopping_ends_streams(void **state)
{
    (void)state;
    fake.text = NULL;
    fake.delay_us = 2000;
    ((engine *)srv.g)->info.ctx = 1 << 20;
    const char *body = "{\"prompt\":\"a\",\"max_tokens\":100000,\"stream\":true}";
    exchange x = {
        .method = "POST", .path = "/v1/completions", .content_length = (int64_t)strlen(body), .body = span_str(body)};
    assert_true(exchange_admit(&srv, &x));
    exchange_handle(&srv, &x);
    usleep(20000);
    assert_true(server_stop(&srv, 5));
    stream_attach(x.later, &(stream_waiter){NULL, fall_asleep, wake_up});
    size_t n = 0;
    for (ssize_t got; (got = stream_read(x.later, reply + n, sizeof reply - 1 - n)) > 0; n += (size_t)got) continue;
    reply[n] = 0;
    expect_part("shutting down");
    expect_part("data: [DONE]");
    exchange_finish(&srv, &x, 200);
    stream_drop(x.later);
    server_close(&srv);
    fake.delay_us = 0;
    start_server();
}

/* Every allocation of a request fails once: no crash, no leak (with the sanitizers), an error or a full reply. */
/* While no query can be served each is refused at once, and whoever asks for health is told; all else is answered. */
static void unavailable(void **state)
{
    (void)state;
    static const char *const path[] = {"/v1/completions", "/completion", "/v1/embeddings"};
    static const char *const body[] = {"{\"prompt\":\"ab\",\"stream\":true}", "{\"prompt\":\"ab\"}",
                                       "{\"input\":\"ab\"}"};
    fake.unavailable = "model.safetensors: became shorter";
    for (int i = 0; i < 3; i++) {
        expect_error(503, call("POST", path[i], body[i]), NULL, "unavailable");
        expect_part("model.safetensors: became shorter");
        bool told = false;
        for (int k = 0; k < last.n_header; k++) told = told || !strcmp(last.header[k].name, "Retry-After");
        assert_true(told);
    }
    assert_int_equal(call("GET", "/health", NULL), 503);
    expect_part("\"status\":\"unavailable\"");
    expect_part("\"detail\":\"model.safetensors: became shorter\"");
    assert_int_equal(call("GET", "/props", NULL), 200);
    fake.unavailable = NULL;
    assert_int_equal(post(""), 200);
    assert_int_equal(call("GET", "/health", NULL), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_found_and_documented),
        cmocka_unit_test(every_field_is_read_by_its_row),
        cmocka_unit_test(every_reply_form_is_whole),
        cmocka_unit_test(fields_without_effect),
        cmocka_unit_test(heads_are_judged),
        cmocka_unit_test(pages_from_elsewhere),
        cmocka_unit_test(foreign_hosts),
        cmocka_unit_test(requests_have_ids),
        cmocka_unit_test(keys_are_asked_for),
        cmocka_unit_test(each_request_is_a_line),
        cmocka_unit_test(tokenize_and_back),
        cmocka_unit_test(what_runs_here),
        cmocka_unit_test(names_of_the_model),
        cmocka_unit_test(unavailable),
        cmocka_unit_test(salts_tell_clients_apart),
        cmocka_unit_test(the_page),
        cmocka_unit_test(a_slow_reader_pauses_its_own_query),
        cmocka_unit_test(loading_and_failing),
        cmocka_unit_test(stopping_ends_streams),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
