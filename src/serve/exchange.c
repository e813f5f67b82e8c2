/* exchange.c - handles every request before and after its endpoint; see exchange.h. The list of routes closes a loop:
 * endpoints reply by this file, which finds them by the list (and server.c counts by it). */
#include "serve/exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/api_list.h"
#include "serve/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define X(name) &route_##name,
const route *const route_all[] = {ROUTE_LIST(X)};
#undef X
const int route_count = sizeof route_all / sizeof *route_all;

static int route_index(const route *r)
{
    for (int i = 0; i < route_count; i++)
        if (route_all[i] == r) return i;
    return -1;
}

void exchange_add_header(exchange *x, const char *name, const char *value)
{
    if (x->n_header == EXCHANGE_HEADERS) return;
    x->header[x->n_header].name = name;
    x->header[x->n_header++].value = value;
}

static const char *error_type(int status)
{
    switch (status) {
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

bool error_text(buf *out, int status, const char *at, const char *code, const char *message)
{
    buf_str(out, "{\"error\":{\"message\":");
    json_quote(out, span_str(message));
    buf_printf(out, ",\"type\":\"%s\",\"param\":", error_type(status));
    if (at) json_quote(out, span_str(at));
    else buf_str(out, "null");
    buf_str(out, ",\"code\":");
    if (code) json_quote(out, span_str(code));
    else buf_str(out, "null");
    return buf_str(out, "}}");
}

void reply_error(exchange *x, int status, const char *at, const char *code, const char *fmt, ...)
{
    err e = {0}; /* for its cleaning of control characters */
    char text[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(&e, ERR_USAGE, "%s", text);
    x->status = status;
    x->content_type = "application/json";
    x->out.n = 0;
    error_text(&x->out, status, at, code, e.msg);
}

void reply_err(exchange *x, const char *at, const err *e)
{
    int status = err_http(e->code);
    reply_error(x, status, at, e->code == ERR_BUSY ? "queue_full" : NULL, "%s", e->msg);
    if (status == 429) exchange_add_header(x, "Retry-After", "1");
}

void reply_json(exchange *x, int status, json *j)
{
    x->status = status;
    x->content_type = "application/json";
    if (!j || !json_print(&x->out, j, false)) reply_error(x, 500, NULL, NULL, "out of memory");
    json_free(j);
}

bool exchange_check_model(const server *s, exchange *x, const char *model)
{
    const char *served = server_model_name(s);
    if (!model || strcmp(model, served) == 0) return true;
    reply_error(x, 404, "model", "model_not_found", "the model \"%.100s\" does not exist; this server has \"%s\"",
                model, served);
    return false;
}

/* "https://localhost:8080" → "localhost:8080"; NULL when it is no web origin. */
static const char *origin_authority(const char *origin)
{
    if (strncmp(origin, "http://", 7) == 0) return origin + 7;
    if (strncmp(origin, "https://", 8) == 0) return origin + 8;
    return NULL;
}

static bool is_local_name(const char *authority)
{
    static const char *const name[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        size_t n = strlen(name[i]);
        if (strncasecmp(authority, name[i], n) == 0 && (authority[n] == 0 || authority[n] == ':')) return true;
    }
    return false;
}

static bool is_listed_origin(const char *list, const char *origin)
{
    size_t n = strlen(origin);
    for (const char *p = list; p && *p; p = strchr(p, ',')) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ",");
        if ((len == 1 && *p == '*') || (len == n && strncmp(p, origin, n) == 0)) return true;
    }
    return false;
}

/* A page may use the server when it comes from this machine, from the server itself, or from --cors-origin. On a
 * loopback listener a name in Host proves nothing: anyone's name may resolve to 127.0.0.1. */
static bool is_allowed_origin(const server *s, const exchange *x)
{
    const char *authority = origin_authority(x->origin);
    if (is_listed_origin(s->o->cors_origin, x->origin)) return true;
    if (!authority) return false;
    return is_local_name(authority) || (!s->loopback && x->host && strcasecmp(authority, x->host) == 0);
}

static bool has_key(const server *s, const exchange *x)
{
    if (!s->keys.n) return true;
    if (!x->authorization || strncasecmp(x->authorization, "bearer ", 7) != 0) return false;
    return keys_match(&s->keys, x->authorization + 7 + strspn(x->authorization + 7, " "));
}

/* "http://host/path" and "/path?query" → "/path"; the listener has cut the query already. */
static const char *path_of(const char *target)
{
    const char *authority = origin_authority(target);
    if (!authority) return target;
    const char *slash = strchr(authority, '/');
    return slash ? slash : "/";
}

static void admit_options(exchange *x, bool cors)
{
    x->status = 204;
    exchange_add_header(x, "Allow", "GET, HEAD, POST, OPTIONS");
    if (!cors) return;
    exchange_add_header(x, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
    exchange_add_header(x, "Access-Control-Allow-Headers", "authorization, content-type");
    exchange_add_header(x, "Access-Control-Max-Age", "86400");
}

static void find_route(exchange *x)
{
    const char *method = strcmp(x->method, "HEAD") == 0 ? "GET" : x->method, *other = NULL;
    for (int i = 0; i < route_count; i++) {
        if (strcmp(route_all[i]->path, x->path) != 0) continue;
        if (strcmp(route_all[i]->method, method) == 0) {
            x->endpoint = route_all[i];
            return;
        }
        other = route_all[i]->method;
    }
    if (!other) {
        reply_error(x, 404, NULL, "not_found", "no such endpoint: %.100s", x->path);
        return;
    }
    reply_error(x, 405, NULL, "method_not_allowed", "%.40s is not possible for %s; use %s", x->method, x->path, other);
    exchange_add_header(x, "Allow", strcmp(other, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
}

void exchange_refuse_size(const server *s, exchange *x, int64_t bytes)
{
    reply_error(x, 413, NULL, "body_too_large", "a body of %lld bytes; at most %lld (--max-body)", (long long)bytes,
                (long long)s->o->max_body);
}

bool exchange_admit(server *s, exchange *x)
{
    x->began = clock_now();
    x->path = path_of(x->path);
    bool is_options = strcmp(x->method, "OPTIONS") == 0,
         is_get = !strcmp(x->method, "GET") || !strcmp(x->method, "HEAD");
    bool cors = x->origin && is_allowed_origin(s, x);
    if (cors) {
        exchange_add_header(x, "Access-Control-Allow-Origin", x->origin);
        exchange_add_header(x, "Vary", "Origin");
    }
    if (x->origin && !cors && !is_get) {
        reply_error(x, 403, NULL, "origin_not_allowed", "pages from %.100s may not use this server (see --cors-origin)",
                    x->origin);
        return false;
    }
    if (atomic_load(&s->draining)) {
        reply_error(x, 503, NULL, "shutting_down", "the server is shutting down");
        return false;
    }
    if (is_options) {
        admit_options(x, cors);
        return false;
    }
    find_route(x);
    if (!(x->endpoint && x->endpoint->open_to_all) && !has_key(s, x)) {
        x->n_header = cors ? 2 : 0;
        reply_error(x, 401, NULL, "invalid_api_key", "a valid key is needed: Authorization: Bearer KEY");
        exchange_add_header(x, "WWW-Authenticate", "Bearer");
        return false;
    }
    if (!x->endpoint) return false;
    if (!is_get && x->content_encoding && strcasecmp(x->content_encoding, "identity") != 0) {
        reply_error(x, 415, NULL, "unsupported_encoding", "Content-Encoding: %.40s: send the body as it is",
                    x->content_encoding);
        exchange_add_header(x, "Accept-Encoding", "identity");
        return false;
    }
    if (x->content_length > s->o->max_body) {
        exchange_refuse_size(s, x, x->content_length);
        return false;
    }
    if (x->endpoint->needs_engine && !atomic_load(&s->g)) {
        reply_error(x, 503, NULL, "model_loading", "the model is still loading; try again soon");
        exchange_add_header(x, "Retry-After", "1");
        return false;
    }
    return true;
}

void exchange_handle(server *s, exchange *x)
{
    x->endpoint->handle(s, x);
    if (!x->status && !x->later) reply_error(x, 500, NULL, NULL, "no reply");
    if (x->status && x->out.bad) reply_error(x, 500, NULL, NULL, "out of memory");
}

void exchange_finish(server *s, exchange *x, int status)
{
    double seconds = clock_now() - x->began;
    metrics_request(s->counts, x->endpoint ? route_index(x->endpoint) : -1, status);
    metrics_observe(s->counts, HISTOGRAM_DURATION, seconds);
    log_line(LOG_DEBUG, "%.16s %.200s %d %.1f ms", x->method, x->path, status, seconds * 1e3);
    buf_free(&x->out);
}
