/* server.h - what all requests share: options, the engine and the thread that drives it, keys, counters.
 *
 * Threads: the engine thread opens the model and runs all steps; the listener's threads parse, tokenize and queue; the
 * watch thread sees clients leave. They meet in the engine's own queue and in streams. */
#pragma once
#include "engine/engine.h"
#include "engine/fingerprint.h"
#include "sample/sample.h"
#include "chat/chat_options.h"
#include "serve/form_cache.h"
#include "serve/keys.h"
#include "serve/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct serve_options {
    const char *host;
    int64_t port, max_body, max_queue, drain, head_timeout, http_threads, cache_bytes;
    double prefill_share;
    const char *alias, *api_key_file, *cors_origin, *allow_host, *tls_cert, *tls_key, *log_format, *metrics_as,
        *cache_dir;
    bool lenient;
    sample_params sample; /* of requests that do not say */
    chat_options chat;
} serve_options;

extern const param serve_param_rows[];
extern const size_t serve_param_count;

typedef enum { SERVER_LOADING, SERVER_READY, SERVER_FAILED } server_state;

typedef struct route route; /* exchange.h */

typedef struct server {
    const serve_options *o;
    const route *const *routes; /* [n_route] that it answers */
    int n_route;
    void *ctx;             /* of routes that are not of this folder (side_server.h) */
    const char *addressed; /* by which flags, for messages */
    key_list keys;         /* empty: no key is asked for */
    pthread_rwlock_t keys_lock;
    metrics *counts;
    form_cache forms;
    time_t created;
    char alias[256]; /* the first name of --alias; empty: the model's own */
    bool loopback;   /* listens on loopback only: names other than localhost in Host and Origin are suspicious */

    chat_template *chat; /* set before g; NULL: none, and chat_why says why */
    err chat_why;
    fingerprint here;            /* of the model; before `g` is set */
    _Atomic(engine *) g;         /* NULL while loading */
    atomic_int state;            /* server_state */
    atomic_bool draining;        /* new requests are refused */
    atomic_bool halt;            /* the engine thread ends after its step */
    _Atomic double turned;       /* clock_now when the engine thread last came round */
    atomic_uint_fast64_t serial; /* of request ids */
    pthread_t thread;
    bool has_thread;
    const engine_options *model;
    err load_error; /* SERVER_FAILED */
    void (*on_state)(void *ctx);
    void *on_state_ctx;
} server;

/* Keys are read, nothing is started. */
int server_open(server *s, const serve_options *o, err *e);
/* With these routes instead of the API's: nothing but the listener is to be started. */
int server_open_with(server *s, const serve_options *o, const route *const *routes, int n_route, err *e);
/* Starts the engine thread, which opens the model and then runs until server_stop. on_state (NULL ok) is called on that
 * thread when the state changes or the loop ends with an error. */
int server_start(server *s, const engine_options *model, void (*on_state)(void *ctx), void *ctx, err *e);
/* Ends the engine thread after its current step and closes the engine; queries that run are cancelled. False: the
 * thread is still busy after `seconds` (loading, or in a long step) and all is left as it is. */
bool server_stop(server *s, double seconds);
void server_close(server *s);
/* Reads the keys again; the old ones stay where that fails. */
int server_reload(server *s, err *e);

/* The error of a query that has ended with this text, for its client: of a node its name, and no more of what it says.
 */
void server_query_error(const server *s, const char *text, err *e);
/* ERR_BUSY when n more queries do not fit the queue now, ERR_USAGE when they never do, ERR_UNAVAILABLE while the engine
 * serves none. */
int server_check_queue(const server *s, size_t n, err *e);
/* Whether the engine thread has come round its loop within the last minute, or still loads the model. */
bool server_is_alive(const server *s);
/* The name under which the model is served: the first of --alias, else the model's own. */
const char *server_model_name(const server *s);
/* Whether a request may ask for a model of this name. */
bool server_has_name(const server *s, const char *name);
