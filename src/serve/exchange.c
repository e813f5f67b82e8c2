/* exchange.c - handles every request before and after its endpoint; see exchange.h. The list of routes closes a loop:
 * endpoints reply by this file, which finds them by the list (and server.c counts by it). */
#include "serve/exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "serve/api_list.h"
#include "serve/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define X(name) &route_##name,
const route *const route_all[] = {ROUTE_LIST(X)};
#undef X
const int route_count = sizeof route_all / sizeof *route_all;

static int route_index(const server *s, const route *r)
{
    for (int i = 0; i < s->n_route; i++)
        if (s->routes[i] == r) return i;
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
    json_quote_or_null(out, at);
    buf_str(out, ",\"code\":");
    json_quote_or_null(out, code);
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
    (x->endpoint && x->endpoint->error ? x->endpoint->error : error_text)(&x->out, status, at, code, e.msg);
}

const char *error_word(int code)
{
    return code == ERR_BUSY          ? "queue_full"
           : code == ERR_UNAVAILABLE ? "unavailable"
           : code == ERR_NODE_LOST   ? "node_lost"
                                     : NULL;
}

void reply_err(exchange *x, const char *at, const err *e)
{
    int status = err_http(e->code);
    reply_error(x, status, at, status == 400 ? "invalid_value" : error_word(e->code), "%s", e->msg);
    if (status == 429 || status == 503) exchange_add_header(x, "Retry-After", "1");
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
    if (!model || server_has_name(s, model)) return true;
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

/* "name" or "name:port". */
static bool is_name(const char *authority, const char *name)
{
    size_t n = strlen(name);
    if (strncasecmp(authority, name, n) != 0) return false;
    return authority[n] == 0 || (authority[n] == ':' && !authority[n + 1 + strspn(authority + n + 1, "0123456789")]);
}

static bool is_local_name(const char *authority)
{
    return is_name(authority, "localhost") || is_name(authority, "127.0.0.1") || is_name(authority, "[::1]");
}

static bool is_listed_origin(const char *list, const char *origin)
{
    for (span item; list_next(&list, &item);)
        if (span_is(item, "*") || (item.n && span_is(item, origin))) return true;
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

/* "https://box:8443" in --cors-origin makes "box" a name of the server. */
static bool is_listed_name(const char *list, const char *host)
{
    for (span item; list_next(&list, &item);) {
        const size_t scheme = span_starts(item, "https://") ? 8 : 7, own = strcspn(host, ":");
        if (span_is(item, "*")) return true;
        if (item.n <= scheme) continue;
        const uint8_t *port = memchr(item.p + scheme, ':', item.n - scheme);
        const size_t name = port ? (size_t)(port - item.p) - scheme : item.n - scheme;
        if (name == own && strncasecmp((const char *)item.p + scheme, host, own) == 0) return true;
    }
    return false;
}

/* One of the names of --allow-host, with any port. */
static bool is_allowed_name(const char *list, const char *host)
{
    char name[256];
    for (span item; list_next(&list, &item);) {
        snprintf(name, sizeof name, "%.*s", (int)item.n, (const char *)item.p);
        if (*name && is_name(host, name)) return true;
    }
    return false;
}

/* The key that the client shows; NULL: none. */
static const char *key_of(const exchange *x)
{
    const char *bearer = x->authorization;
    if (!bearer || strncasecmp(bearer, "bearer ", 7) != 0) return x->api_key;
    return bearer + 7 + strspn(bearer + 7, " ");
}

void exchange_salt(const server *s, const exchange *x, const char *text, uint8_t salt[SALT_BYTES])
{
    const char *key = s->o->api_key_file ? key_of(x) : NULL;
    memset(salt, 0, SALT_BYTES);
    if (!key && !text) return;
    sha256 sum;
    sha256_init(&sum);
    sha256_add(&sum, key ? key : "", key ? strlen(key) + 1 : 1); /* with the NUL: no other pair reads the same */
    if (text) sha256_add(&sum, text, strlen(text) + 1);
    sha256_end(&sum, salt);
}

uint64_t exchange_owner(const server *s, const exchange *x)
{
    uint8_t salt[SALT_BYTES];
    uint64_t owner = x->address;
    if (!s->o->api_key_file) return owner;
    exchange_salt(s, x, NULL, salt);
    memcpy(&owner, salt, sizeof owner);
    return owner;
}

/* A name that somebody else's DNS may give to 127.0.0.1, so that their pages reach a loopback listener. Numbers are no
 * names; and where a key is asked for, such a page has none. */
static bool is_foreign_host(const server *s, const char *host)
{
    if (!s->loopback || s->o->api_key_file || !host || *host == '[' || !host[strspn(host, "0123456789.:")])
        return false;
    return !is_local_name(host) && !is_name(host, s->o->host) && !is_listed_name(s->o->cors_origin, host) &&
           !is_allowed_name(s->o->allow_host, host);
}

bool exchange_has_key(server *s, exchange *x)
{
    const char *key = key_of(x);
    char made[24];
    pthread_rwlock_rdlock(&s->keys_lock);
    const bool asked = s->keys.n > 0;
    const int which = asked && key ? keys_find(&s->keys, key) : -1;
    if (which >= 0) snprintf(x->key_name, sizeof x->key_name, "%s", keys_name(&s->keys, which, made));
    pthread_rwlock_unlock(&s->keys_lock);
    return !asked || which >= 0;
}

/* The client's id where it is a plain word, else a new one; every reply carries it, by the names that the clients of
 * OpenAI and of Anthropic read. */
static void name_request(server *s, exchange *x)
{
    const char *own = x->client_id;
    size_t n = own ? strlen(own) : 0;
    bool plain = n > 0 && n <= EXCHANGE_ID;
    for (size_t i = 0; i < n && plain; i++) plain = own[i] > ' ' && own[i] < 127;
    uint64_t random;
    if (plain) memcpy(x->id, own, n + 1);
    else if (getrandom(&random, sizeof random, 0) != sizeof random) random = atomic_fetch_add(&s->serial, 1);
    if (!plain) snprintf(x->id, sizeof x->id, "req-%016llx", (unsigned long long)random);
    exchange_add_header(x, "X-Request-Id", x->id);
    exchange_add_header(x, "Request-Id", x->id);
}

/* "http://host/path" → "/path", and its host; "/path" → that of Host. The listener has cut the query already. */
static const char *split_target(exchange *x, char host[256])
{
    const char *authority = origin_authority(x->path);
    if (!authority) return x->host;
    size_t n = strcspn(authority, "/");
    snprintf(host, 256, "%.*s", n < 256 ? (int)n : 255, authority);
    x->path = authority[n] ? authority + n : "/";
    return host;
}

static void admit_options(exchange *x, bool cors)
{
    x->status = 204;
    exchange_add_header(x, "Allow", "GET, HEAD, POST, OPTIONS");
    if (!cors) return;
    exchange_add_header(x, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
    exchange_add_header(x, "Access-Control-Allow-Headers",
                        x->wanted_headers && *x->wanted_headers ? x->wanted_headers : "authorization, content-type");
    exchange_add_header(x, "Access-Control-Max-Age", "86400");
}

static bool is_path(const char *pattern, const char *path, const char **tail)
{
    const char *hole = strstr(pattern, "{id}");
    size_t n = hole ? (size_t)(hole - pattern) : strlen(pattern);
    if (strncmp(pattern, path, n) != 0 || (hole != NULL) != (path[n] != 0)) return false;
    *tail = path + n;
    return true;
}

static bool is_path_of(const route *r, const char *path, const char **tail)
{
    bool is = is_path(r->path, path, tail) || (!strncmp(r->path, "/v1/", 4) && is_path(r->path + 3, path, tail));
    for (size_t i = 0; i < sizeof r->also / sizeof *r->also && !is; i++)
        is = r->also[i] && is_path(r->also[i], path, tail);
    return is;
}

/* NULL: none; *other is the method of a route with this path, or NULL. */
static const route *find_route(const server *s, exchange *x, const char **other)
{
    const char *method = strcmp(x->method, "HEAD") == 0 ? "GET" : x->method;
    *other = NULL;
    for (int i = 0; i < s->n_route; i++) {
        if (!is_path_of(s->routes[i], x->path, &x->tail)) continue;
        if (strcmp(s->routes[i]->method, method) == 0) return s->routes[i];
        *other = s->routes[i]->method;
    }
    return NULL;
}

static void refuse_route(exchange *x, const char *other)
{
    if (!other) {
        reply_error(x, 404, NULL, "not_found", "no such endpoint: %.100s", x->path);
        return;
    }
    reply_error(x, 405, NULL, "method_not_allowed", "%.40s is not possible for %.100s; use %s", x->method, x->path,
                other);
    exchange_add_header(x, "Allow", strcmp(other, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
}

void exchange_refuse_size(const server *s, exchange *x, int64_t bytes)
{
    reply_error(x, 413, NULL, "body_too_large", "a body of %lld bytes; at most %lld (--max-body)", (long long)bytes,
                (long long)s->o->max_body);
}

/* Whether the host that it names and the page that it comes from may use the server; *cors: such a page was named. */
static bool admit_sender(const server *s, exchange *x, const char *host, bool is_get, bool *cors)
{
    const bool is_health = x->endpoint && x->endpoint->is_probe && x->endpoint->open_to_all;
    if (!is_health && is_foreign_host(s, host)) {
        const int name = (int)strcspn(host, ":");
        reply_error(x, 403, NULL, "host_not_allowed",
                    "Host \"%.100s\" is refused (protection against DNS rebinding): --allow-host %.*s", host,
                    name < 100 ? name : 100, host);
        return false;
    }
    *cors = x->origin && is_allowed_origin(s, x);
    if (*cors) {
        exchange_add_header(x, "Access-Control-Allow-Origin", x->origin);
        exchange_add_header(x, "Vary", "Origin");
    }
    if (!x->origin || *cors || is_get) return true;
    reply_error(x, 403, NULL, "origin_not_allowed", "pages from %.100s may not use this server%s", x->origin,
                s->routes == route_all ? " (see --cors-origin)" : "");
    return false;
}

/* Whether its endpoint can take the body now. */
static bool admit_body(server *s, exchange *x, bool is_get)
{
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
    if (!x->endpoint->needs_engine || atomic_load(&s->g)) return true;
    reply_error(x, 503, NULL, "model_loading", "the model is still loading; try again soon");
    exchange_add_header(x, "Retry-After", "1");
    return false;
}

bool exchange_admit(server *s, exchange *x)
{
    char of_target[256];
    const char *other, *host;
    bool cors = false;
    x->began = clock_now();
    name_request(s, x);
    if (x->misframed) {
        reply_error(x, 400, NULL, "bad_framing", "%s", x->misframed);
        return false;
    }
    host = split_target(x, of_target);
    x->endpoint = find_route(s, x, &other);
    x->lenient = s->o->lenient;
    const bool is_get = !strcmp(x->method, "GET") || !strcmp(x->method, "HEAD");
    if (!admit_sender(s, x, host, is_get, &cors)) return false;
    if (atomic_load(&s->draining)) {
        reply_error(x, 503, NULL, "shutting_down", "the server is shutting down");
        return false;
    }
    if (strcmp(x->method, "OPTIONS") == 0) {
        admit_options(x, cors);
        return false;
    }
    if (!(x->endpoint && x->endpoint->open_to_all) && !exchange_has_key(s, x)) {
        reply_error(x, 401, NULL, "invalid_api_key", "a valid key is needed: Authorization: Bearer KEY");
        exchange_add_header(x, "WWW-Authenticate", "Bearer");
        return false;
    }
    if (!x->endpoint) {
        refuse_route(x, other);
        return false;
    }
    return admit_body(s, x, is_get);
}

void exchange_handle(server *s, exchange *x)
{
    x->endpoint->handle(s, x);
    if (!x->status && !x->later) reply_error(x, 500, NULL, NULL, "no reply");
    if (x->status && x->out.bad) reply_error(x, 500, NULL, NULL, "out of memory");
}

/* One line a request, without its text and its key. */
static void log_request(const exchange *x, int status, double seconds)
{
    int64_t prompt = 0, generated = 0;
    buf text = {0}, members = {0};
    if (x->later) stream_counts(x->later, &prompt, &generated);
    buf_printf(&text, "%s %.16s %.200s %d", x->id, x->method, x->path, status);
    const double first = x->later ? stream_first(x->later) : 0;
    const char *ended = x->later ? stream_end_reason(x->later) : NULL;
    if (x->later) buf_printf(&text, " %lld + %lld tokens", (long long)prompt, (long long)generated);
    if (ended) buf_printf(&text, " %s", ended);
    buf_printf(&text, " %.3f s", seconds);
    if (first > 0) buf_printf(&text, " (first token %.3f)", first - x->began);
    if (x->client[0]) buf_printf(&text, " from %s", x->client);
    if (x->key_name[0]) buf_printf(&text, " (%s)", x->key_name);
    buf_str(&members, "\"id\":");
    json_quote(&members, span_str(x->id));
    buf_printf(&members, ",\"method\":");
    json_quote(&members, span_of(x->method, strnlen(x->method, 16)));
    buf_str(&members, ",\"path\":");
    json_quote(&members, span_of(x->path, strnlen(x->path, 200)));
    buf_printf(&members, ",\"status\":%d,\"prompt_tokens\":%lld,\"generated_tokens\":%lld,\"seconds\":%.6f", status,
               (long long)prompt, (long long)generated, seconds);
    if (ended) buf_printf(&members, ",\"finish_reason\":\"%s\"", ended);
    if (first > 0) buf_printf(&members, ",\"first_token_seconds\":%.6f", first - x->began);
    if (x->client[0]) buf_printf(&members, ",\"client\":\"%s\"", x->client);
    if (x->key_name[0]) buf_str(&members, ",\"key\":");
    if (x->key_name[0]) json_quote(&members, span_str(x->key_name));
    const bool quiet = x->endpoint && x->endpoint->is_probe && status == 200;
    if (!text.bad && !members.bad) log_event(quiet ? LOG_DEBUG : LOG_INFO, buf_cstr(&text), buf_cstr(&members));
    buf_free(&text);
    buf_free(&members);
}

/* Of requests that generate, embed or rank: probes and refusals have no place in these. */
static void observe_work(server *s, const exchange *x, double seconds)
{
    int64_t prompt, generated;
    stream_counts(x->later, &prompt, &generated);
    metrics_observe(s->counts, HISTOGRAM_DURATION, seconds);
    metrics_observe(s->counts, HISTOGRAM_PROMPT, (double)prompt);
    if (generated) metrics_observe(s->counts, HISTOGRAM_OUTPUT, (double)generated);
}

void exchange_finish(server *s, exchange *x, int status)
{
    double seconds = clock_now() - x->began;
    metrics_request(s->counts, x->endpoint ? route_index(s, x->endpoint) : -1, status);
    if (x->later) observe_work(s, x, seconds);
    log_request(x, status, seconds);
    buf_free(&x->out);
}
