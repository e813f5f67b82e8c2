/* server.c - the shared state of the server and the engine thread; see server.h. */
#define _GNU_SOURCE
#include "serve/server.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/exchange.h"
#include "measure/auto_open.h"

#include <string.h>

enum { IDLE_MS = 500 };                 /* longest sleep of an idle engine thread */
static const double STUCK_SECONDS = 60; /* longer than any step */

#define ROW(field, kind, ...) PARAM_ROW(serve_options, field, kind, __VA_ARGS__)

const param serve_param_rows[] = {
    ROW(host, PARAM_TEXT, .keeps_bits = true, .otherwise = "127.0.0.1", .words = "ADDR",
        .doc = "address to listen on; 0.0.0.0: all networks"),
    ROW(port, PARAM_INT, .keeps_bits = true, .otherwise = "8080", .max = 65535,
        .doc = "port to listen on; 0: a free one, which is printed"),
    ROW(alias, PARAM_TEXT, .keeps_bits = true, .words = "NAME,...",
        .doc = "names of the model in requests and /v1/models, the first in replies; *: requests may give any name"),
    ROW(api_key_file, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
        .doc = "keys, one per line: a request has to show one of them"),
    ROW(cors_origin, PARAM_TEXT, .keeps_bits = true, .words = "LIST",
        .doc = "origins of web pages that may use the server, besides local ones, split by ','; *: all"),
    ROW(allow_host, PARAM_TEXT, .rare = true, .keeps_bits = true, .words = "NAME,...",
        .doc =
            "host names, besides localhost, by which a server without keys answers on a loopback address: those that "
            "its proxy passes on"),
    ROW(tls_cert, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
        .doc = "certificate chain (PEM): serve https"),
    ROW(tls_key, PARAM_TEXT, .keeps_bits = true, .words = "FILE", .path = PATH_FILE,
        .doc = "private key of the certificate (PEM)"),
    ROW(max_body, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "8388608", .min = 1024, .max = 1 << 30,
        .words = "BYTES", .doc = "largest request body"),
    ROW(prefill_share, PARAM_FLOAT, .rare = true, .keeps_bits = true, .otherwise = "0.6", .min = 0.01, .max = 0.95,
        .doc = "share of a step's predicted time for prefill while others decode; at least 10 ms, and more during a "
               "burst of short requests"),
    ROW(max_queue, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "1024", .min = 1, .max = 1 << 20,
        .doc = "requests that may wait while as many as may run do so; more get 429"),
    ROW(cache_dir, PARAM_TEXT, .keeps_bits = true, .words = "DIR", .path = PATH_FILE,
        .doc = "keep the prefix cache in this folder, so that a restart does not forget it"),
    ROW(cache_bytes, PARAM_BYTES, .rare = true, .keeps_bits = true, .otherwise = "4G", .min = 1 << 20, .max = 1e18,
        .words = "N", .doc = "bytes that --cache-dir may take; pages that were not used for longest go first"),
    ROW(drain, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "30", .max = 86400, .words = "SECONDS",
        .doc = "after SIGTERM, time for streams to finish"),
    ROW(head_timeout, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "10", .min = 1, .max = 3600,
        .words = "SECONDS", .doc = "time for a request's head, after which the connection is closed"),
    ROW(http_threads, PARAM_INT, .rare = true, .keeps_bits = true, .otherwise = "4", .min = 1, .max = 64,
        .doc = "threads that read requests and send replies"),
    ROW(log_format, PARAM_WORD, .rare = true, .keeps_bits = true, .otherwise = "text", .words = "text|json",
        .doc = "form of the log, which has a line for each request"),
    ROW(metrics_as, PARAM_WORD, .rare = true, .keeps_bits = true, .words = "vllm",
        .doc = "print the metrics under vLLM's names too"),
    ROW(lenient, PARAM_BOOL, .rare = true, .keeps_bits = true,
        .doc = "ignore and log unknown request fields instead of refusing them"),
};
const size_t serve_param_count = sizeof serve_param_rows / sizeof *serve_param_rows;

/* An entry that can match no page is a mistake: browsers send "scheme://host[:port]", without a path. */
static int check_origins(const char *list, err *e)
{
    for (span at; list_next(&list, &at);) {
        const size_t scheme = span_starts(at, "http://") ? 7 : span_starts(at, "https://") ? 8 : 0;
        const bool origin = scheme && at.n > scheme && !memchr(at.p + scheme, '/', at.n - scheme) &&
                            !memchr(at.p, ' ', at.n);
        if (at.n && !origin && !span_is(at, "*"))
            return err_set(e, ERR_USAGE,
                           "--cors-origin %.*s: an origin is http://HOST[:PORT], https://HOST[:PORT] or *",
                           at.n < 200 ? (int)at.n : 200, (const char *)at.p);
    }
    return OK;
}

/* The first name of --alias is the one that replies bear; "*" is none. */
static int take_alias(server *s, const char *list, err *e)
{
    bool named = !list;
    for (span name; list_next(&list, &name) && !*s->alias;) {
        if (name.n >= sizeof s->alias)
            return err_set(e, ERR_USAGE, "--alias: a name of more than %zu bytes", sizeof s->alias);
        named = named || name.n;
        if (!span_is(name, "*")) memcpy(s->alias, name.p, name.n);
    }
    return named ? OK : err_set(e, ERR_USAGE, "--alias: the name is empty");
}

int server_open(server *s, const serve_options *o, err *e) { return server_open_with(s, o, route_all, route_count, e); }

int server_open_with(server *s, const serve_options *o, const route *const *routes, int n_route, err *e)
{
    *s = (server){
        .o = o, .routes = routes, .n_route = n_route, .addressed = "--host and --port", .created = time(NULL)};
    pthread_rwlock_init(&s->keys_lock, NULL);
    form_cache_open(&s->forms);
    int rc = take_alias(s, o->alias, e);
    if (!rc) rc = check_origins(o->cors_origin, e);
    if (rc) return rc;
    s->counts = metrics_open(n_route);
    if (!s->counts) return err_memory(e, NULL);
    for (int i = 0; i < n_route; i++) metrics_label(s->counts, i, routes[i]->path);
    if (!o->api_key_file) return OK;
    file_warn_readable(o->api_key_file);
    return keys_read(&s->keys, o->api_key_file, e);
}

int server_reload(server *s, err *e)
{
    key_list now;
    if (!s->o->api_key_file) return OK;
    int rc = keys_read(&now, s->o->api_key_file, e);
    if (rc) return rc;
    pthread_rwlock_wrlock(&s->keys_lock);
    key_list old = s->keys;
    s->keys = now;
    pthread_rwlock_unlock(&s->keys_lock);
    keys_free(&old);
    return OK;
}

void server_close(server *s)
{
    keys_free(&s->keys);
    pthread_rwlock_destroy(&s->keys_lock);
    form_cache_close(&s->forms);
    metrics_close(s->counts);
    chat_template_close(s->chat);
    s->chat = NULL;
    s->counts = NULL;
}

const char *server_model_name(const server *s)
{
    engine *g = atomic_load(&s->g);
    const char *own = g ? engine_describe(g)->name : "";
    return s->alias[0] ? s->alias : own;
}

bool server_has_name(const server *s, const char *name)
{
    const char *list = s->o->alias;
    for (span item; list_next(&list, &item);)
        if (span_is(item, "*") || (item.n && span_is(item, name))) return true;
    return strcmp(name, server_model_name(s)) == 0;
}

int server_check_queue(const server *s, size_t n, err *e)
{
    engine_stats st;
    const size_t room = (size_t)engine_describe(s->g)->max_batch + (size_t)s->o->max_queue;
    if (n > room)
        return err_set(e, ERR_USAGE,
                       "%zu choices in one request are more than %zu: all places and the queue of %lld "
                       "(--max-queue)",
                       n, room, (long long)s->o->max_queue);
    err why = {0};
    if (engine_unavailable(s->g, &why)) {
        if (why.code == ERR_NODE_LOST) server_query_error(s, why.msg, e);
        else err_copy(e, &why);
        return why.code;
    }
    engine_get_stats(s->g, &st);
    if ((size_t)st.running + (size_t)st.waiting + n <= room) return OK;
    return err_set(e, ERR_BUSY, "the queue is full (%d queries wait); try again later", st.waiting);
}

void server_query_error(const server *s, const char *text, err *e)
{
    enum { PEERS_MAX = 64 };
    err why = {0};
    engine_peer *all = mem_array(PEERS_MAX, sizeof *all);
    const int n = all ? engine_peers(s->g, all, PEERS_MAX) : 0,
              code = engine_unavailable(s->g, &why) ? why.code : ERR_IO;
    err_set(e, code, "%s", text);
    for (int i = 0; i < n; i++) {
        const size_t name = strlen(all[i].name);
        const char *more = strrchr(text, '(');
        if (strncmp(text, all[i].name, name) || (text[name] != ':' && text[name] != ' ')) continue;
        log_line(LOG_WARN, "a text ended: %s", text);
        *e = (err){0};
        err_set(e, ERR_NODE_LOST, "%s, which has a part of the model, is lost or refuses%s%s", all[i].name,
                more ? " " : "", more ? more : "");
        break;
    }
    mem_free(all);
}

bool server_is_alive(const server *s)
{
    return atomic_load(&s->state) == SERVER_LOADING || clock_now() - atomic_load(&s->turned) < STUCK_SECONDS;
}

static void set_state(server *s, server_state state)
{
    atomic_store(&s->state, (int)state);
    if (s->on_state) s->on_state(s->on_state_ctx);
}

/* The template of --chat-template, else the model's. A failure of the model's own concerns chats alone. */
static int open_chat(server *s, engine *g)
{
    int rc = chat_options_open(&s->chat, &s->o->chat, engine_tokenizer(g), &s->chat_why);
    if (rc && (s->o->chat.chat_template || rc == ERR_USAGE)) return rc;
    if (rc && rc != ERR_NOT_FOUND) log_line(LOG_WARN, "%s: chats are refused", s->chat_why.msg);
    return OK;
}

/* Opens the model, then steps for ever: the only thread that calls engine_infer. */
static void *run_engine(void *arg)
{
    server *s = arg;
    engine *g = NULL;
    engine_options o = *s->model;
    o.max_queue = s->o->max_queue;
    o.prefill_share = s->o->prefill_share;
    o.touch = true;
    int rc = auto_open(&g, &o, &s->load_error);
    if (!rc && (rc = engine_fingerprint(g, &s->here, &s->load_error))) engine_close(g);
    if (!rc && s->o->cache_dir && (rc = engine_keep_folder(g, s->o->cache_dir, s->o->cache_bytes, &s->load_error)))
        engine_close(g);
    if (rc) {
        set_state(s, SERVER_FAILED);
        return NULL;
    }
    engine_watch_files(g);
    rc = open_chat(s, g);
    if (rc) {
        s->load_error = s->chat_why;
        engine_close(g);
        set_state(s, SERVER_FAILED);
        return NULL;
    }
    atomic_store(&s->g, g);
    atomic_store(&s->turned, clock_now());
    set_state(s, SERVER_READY);
    while (!rc && !atomic_load(&s->halt)) {
        bool more;
        double began = clock_now();
        atomic_store(&s->turned, began);
        rc = engine_infer(g, &more, &s->load_error);
        if (more) metrics_observe(s->counts, HISTOGRAM_STEP, clock_now() - began);
        if (!rc && !more) engine_wait(g, IDLE_MS);
    }
    if (rc) set_state(s, SERVER_FAILED);
    return NULL;
}

int server_start(server *s, const engine_options *model, void (*on_state)(void *ctx), void *ctx, err *e)
{
    s->model = model;
    s->on_state = on_state;
    s->on_state_ctx = ctx;
    if (pthread_create(&s->thread, NULL, run_engine, s)) return err_set(e, ERR_IO, "cannot start the engine thread");
    s->has_thread = true;
    return OK;
}

bool server_stop(server *s, double seconds)
{
    atomic_store(&s->draining, true);
    atomic_store(&s->halt, true);
    engine *g = atomic_load(&s->g);
    if (g) engine_wake(g);
    if (s->has_thread) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        double until = (double)t.tv_sec + (double)t.tv_nsec * 1e-9 + seconds;
        t = clock_timespec(until);
        if (pthread_timedjoin_np(s->thread, NULL, &t)) return false;
        s->has_thread = false;
    }
    engine_close(atomic_load(&s->g)); /* ends the queries that are left: they still ask for the model's name */
    atomic_store(&s->g, NULL);
    return true;
}
