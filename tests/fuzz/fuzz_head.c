/* fuzz_head.c - heads of requests: who may speak to a server on a loopback address. Lines: --cors-origin, --allow-host,
 * Host, Origin, target, method, Authorization, X-Request-Id. A foreign name is refused unless a list has it. */
#include "tests/fake_engine.h"

#include "base/log.h"
#include "serve/api_list.h"
#include "serve/server.h"

enum { CORS, ALLOW, HOST, ORIGIN, TARGET, METHOD, KEY, ID, LINES };

static void promise(bool kept)
{
    if (!kept) abort();
}

static bool begins(const char *text, const char *word) { return text && !strncasecmp(text, word, strlen(word)); }

/* A reply, or its header, is whole: no line is broken by what a client sent. */
static void look(const exchange *x)
{
    json *j;
    for (int i = 0; i < x->n_header; i++) promise(!strpbrk(x->header[i].value, "\r\n"));
    promise(x->status >= 200 && x->status < 600);
    if (x->status == 204) return;
    promise(!json_parse(&j, buf_span(&x->out), "reply", &(err){0}));
    promise(json_str(json_path(j, "error.message"), NULL) != NULL);
    json_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static server srv;
    static serve_options opt;
    char *line[LINES] = {0}, *text = mem_alloc(n + 1);
    if (!text) abort();
    if (!srv.o) {
        log_set_level("error");
        param_defaults(serve_param_rows, serve_param_count, &opt);
        param_defaults(sample_param_rows, sample_param_count, &opt.sample);
        if (server_open(&srv, &opt, &(err){0})) abort();
        srv.loopback = true;
    }
    memcpy(text, data, n);
    text[n] = 0;
    char *at = text;
    for (int i = 0; i < LINES && at; i++) {
        char *end = at + strcspn(at, "\r\n");
        if (*at != '\r' && *at != '\n' && *at) line[i] = at;
        at = *end ? end + 1 : NULL;
        *end = 0;
    }
    opt.cors_origin = line[CORS];
    opt.allow_host = line[ALLOW];
    exchange x = {.method = line[METHOD] ? line[METHOD] : "GET",
                  .path = line[TARGET] ? line[TARGET] : "/v1/models",
                  .host = line[HOST],
                  .origin = line[ORIGIN],
                  .authorization = line[KEY],
                  .client_id = line[ID],
                  .content_length = 0};
    const bool listed = line[CORS] || line[ALLOW], whole = begins(x.path, "http");
    if (!exchange_admit(&srv, &x)) look(&x);
    if (!listed && !whole && begins(line[HOST], "evil") && x.endpoint != &route_health) promise(x.status == 403);
    if (!listed && begins(line[ORIGIN], "http://evil"))
        for (int i = 0; i < x.n_header; i++) promise(strcmp(x.header[i].name, "Access-Control-Allow-Origin") != 0);
    exchange_finish(&srv, &x, x.status);
    mem_free(text);
    return 0;
}
