/* fuzz_request.c - bodies of requests for text, chats and ids: the first byte chooses. Every refusal
 * must be an error object that parses; accepted requests run to their end on the engine made for tests. */
#include "tests/fake_engine.h"

#include "base/log.h"
#include "serve/api_list.h"
#include "serve/server.h"

static server srv;
static serve_options opt;

static void ready(void)
{
    static bool once;
    if (once) return;
    once = true;
    log_set_level("error");
    err e = {0};
    static const engine_options model;
    param_defaults(serve_param_rows, serve_param_count, &opt);
    param_defaults(sample_param_rows, sample_param_count, &opt.sample);
    engine *g;
    if (server_open(&srv, &opt, &e) || auto_open(&g, &model, &e)) abort();
    static const char chat[] =
        "{% for m in messages %}<|x|>{{ m.role }}{{ m.content }}{% for c in m.tool_calls %}<tool_call>"
        "{{ c.function|tojson }}{% endfor %}{% endfor %}{{ tools|tojson if tools }}</think>";
    if (chat_template_open(&srv.chat, span_str(chat), NULL, engine_tokenizer(g), &e)) abort();
    atomic_store(&srv.g, g);
}

static void no_sleep(void *ctx) { (void)ctx; }

static void finish(exchange *x)
{
    bool more = true;
    err e = {0};
    int status;
    const char *type;
    bool live;
    char part[4096];
    stream_attach(x->later, &(stream_waiter){NULL, no_sleep, no_sleep});
    while (more) engine_infer(srv.g, &more, &e);
    if (!stream_ready(x->later, &status, &type, &live)) abort();
    while (stream_read(x->later, part, sizeof part) > 0) continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const path[] = {"/v1/completions",      "/v1/completions", "/tokenize",    "/detokenize",
                                       "/v1/chat/completions", "/v1/responses",   "/v1/messages", "/apply-template"};
    if (n < 1) return 0;
    ready();
    fake.text = data[0] & 16  ? "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"
                : data[0] & 8 ? "h\xc3\xa9llo one two"
                              : NULL;
    exchange x = {.method = "POST",
                  .path = path[data[0] & 7],
                  .content_length = (int64_t)n - 1,
                  .body = span_of(data + 1, n - 1)};
    if (!exchange_admit(&srv, &x)) abort();
    exchange_handle(&srv, &x);
    if (x.later) {
        finish(&x);
    } else {
        json *j;
        err e = {0};
        bool nul = strstr(buf_cstr(&x.out), "\\u0000"); /* allowed in replies; our own reader refuses it */
        if (nul) j = NULL;
        else if (json_parse(&j, buf_span(&x.out), "reply", &e)) abort();
        if (j && x.status != 200 && !json_str(json_path(j, "error.message"), NULL)) abort();
        json_free(j);
    }
    exchange_finish(&srv, &x, x.status);
    stream_drop(x.later);
    return 0;
}
