/* exchange.h - one request and its reply, without sockets: what routes see, and what tests call them with.
 *
 * The listener fills the request half and calls exchange_admit when the head is complete (keys, origin, method,
 * declared length: all that can be refused before a body is read), then exchange_handle with the body. A handler either
 * fills status and `out`, or sets `later`: a stream that another thread will fill. Routes are the server's
 * (api_list.h), and take an exchange. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "base/span.h"
#include "engine/engine.h"
#include "serve/stream.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct server server;
typedef struct route route;
typedef struct field field; /* fields.h */

enum { EXCHANGE_HEADERS = 12, EXCHANGE_ID = 128 };

typedef struct exchange {
    /* request; strings belong to the listener, NULL = absent */
    const char *method, *path;
    const char *authorization, *api_key, *origin, *host, *content_encoding;
    const char *wanted_headers; /* Access-Control-Request-Headers */
    const char *client_id;      /* X-Request-Id */
    const char *misframed;      /* why its head cannot be trusted; NULL: it can */
    int64_t content_length;     /* -1: not declared */
    uint64_t address;           /* another number for each address of a client */
    char client[48];            /* that address, for the log; empty: not known */
    span body;
    /* reply */
    int status; /* 0: not decided yet */
    const char *content_type;
    buf out;
    stream *later; /* the consumer's reference is the listener's */
    struct {
        const char *name, *value; /* value: a literal, a string of the request, or `id` */
    } header[EXCHANGE_HEADERS];
    int n_header;
    /* set on the way */
    const route *endpoint;
    bool lenient;             /* unknown fields are ignored */
    const char *tail;         /* what stands for {id} in the endpoint's path */
    char id[EXCHANGE_ID + 1]; /* of the request: the client's, or a new one */
    double began;             /* clock_now of the head */
    char key_name[64];        /* of the key that it showed, for the log; empty: none */
} exchange;

/* An endpoint: one const struct in api_<x>.c plus one line in api_list.h. "/v1/x" answers at "/x" too; "{id}" ends a
 * path and stands for any text. */
struct route {
    const char *method, *path, *also[2]; /* also: other paths, NULL: none */
    bool open_to_all;                    /* no key asked for */
    bool needs_engine;                   /* 503 until the model is loaded */
    bool is_probe;                       /* asked all the time: its line of the log is for --log-level debug */
    const field *fields;                 /* of its JSON body, closed by a row without a name; NULL: it takes none */
    const struct reply_form *reply;      /* of text that is generated: reply_form.h; NULL: there is none */
    void (*handle)(server *s, exchange *x);
    /* its form of errors, as error_text; NULL: OpenAI's */
    bool (*error)(buf *out, int status, const char *at, const char *code, const char *message);
};
extern const route *const route_all[]; /* ROUTE_LIST of api_list.h */
extern const int route_count;

/* False: refused; the reply is in x and no body is wanted. */
bool exchange_admit(server *s, exchange *x);
void exchange_handle(server *s, exchange *x);
/* 413 for a body of at least `bytes`. */
void exchange_refuse_size(const server *s, exchange *x, int64_t bytes);
/* After the reply was sent or given up, and before its stream is dropped: metrics and the log. `status`: the one that
 * was sent. Frees x->out. */
void exchange_finish(server *s, exchange *x, int status);

void exchange_add_header(exchange *x, const char *name, const char *value);

/* False: the `model` of a request (NULL ok) is not the one that is served; the reply is in x. */
bool exchange_check_model(const server *s, exchange *x, const char *model);

/* Tells apart whose prompts may share what was computed: by key, where keys are asked for, and by a text of the request
 * (NULL: none). */
void exchange_salt(const server *s, const exchange *x, const char *text, uint8_t salt[SALT_BYTES]);
/* A number for who takes turns with others: whoever has a key, or, where none is asked for, an address. */
uint64_t exchange_owner(const server *s, const exchange *x);

/* A complete reply. The JSON value is freed. */
void reply_json(exchange *x, int status, json *j);
/* {"error":{"message","type","param","code"}}; `at`: the field at fault ("param"); at and code NULL: null. */
void reply_error(exchange *x, int status, const char *at, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Whether it shows one of the server's keys; true where none are asked for. */
bool exchange_has_key(struct server *s, exchange *x);
/* The same from an error value: its HTTP status, its message. */
void reply_err(exchange *x, const char *at, const err *e);
/* "code" of an error value that is nobody's mistake; NULL: it has none. */
const char *error_word(int code);
/* The text of such an object, for errors inside a stream. */
bool error_text(buf *out, int status, const char *at, const char *code, const char *message);
