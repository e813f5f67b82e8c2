/* err.h - errors are values: a negative code and one message from the place that knows most.
 *
 * Every function that can fail returns int: 0, or one of the codes below, and takes an `err *` that may be NULL. The
 * first message wins: callers add context in front (err_wrap), they never replace it. The command line prints
 * "inferflow: error: <msg>"; the server maps codes to HTTP status. Messages are for people; programs decide by the
 * code and by `who`. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* X(id, value, http status, what it means) */
#define ERR_LIST(X)                                                                                                    \
    X(ERR_USAGE, -1, 400, "wrong usage: a flag, a request field")                                                      \
    X(ERR_IO, -2, 500, "the operating system refused: open, read, write, bind")                                        \
    X(ERR_FORMAT, -3, 400, "a file or message is malformed or hostile")                                                \
    X(ERR_SPEC, -4, 400, "a spec, or a model that does not fit its spec")                                              \
    X(ERR_MEMORY, -5, 500, "out of memory, or over a stated budget")                                                   \
    X(ERR_LIMIT, -6, 400, "a stated limit is exceeded: context, body, queue")                                          \
    X(ERR_NOT_FOUND, -7, 404, "no such model, file, key or tensor")                                                    \
    X(ERR_BUSY, -8, 429, "no room now: try again later")                                                               \
    X(ERR_CANCELLED, -9, 499, "the caller went away")                                                                  \
    X(ERR_UNAVAILABLE, -10, 503, "a file of weights is missing or changed; the request may succeed later")             \
    X(ERR_NODE_LOST, -11, 503, "a node that has a part of the model is gone, and was waited for in vain")              \
    X(ERR_UNSATISFIABLE, -12, 400, "a grammar or a schema that no text satisfies")

enum {
    OK = 0,
#define X(id, value, http, doc) id = value,
    ERR_LIST(X)
#undef X
};

enum { ERR_MSG_MAX = 600, ERR_WHO_MAX = 600 };

typedef struct err {
    int code; /* 0 = no error yet */
    char msg[ERR_MSG_MAX];
    uint16_t named;        /* bytes of "who: " at the beginning of msg */
    char who[ERR_WHO_MAX]; /* other processes that it is about, by address, separated by blanks, the nearest first */
} err;

/* Records code and message unless an error is already recorded; returns the code that stands. `e` may be NULL. Control
 * characters in the message (they can come from hostile files) are replaced by '?'. */
int err_set(err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* "out of memory for `what`", with ERR_MEMORY; what NULL: "out of memory". */
int err_memory(err *e, const char *what);

/* As err_set, for an error that was recorded elsewhere; OK if `from` has none. */
int err_copy(err *e, const err *from);

/* Puts "context: " in front of a recorded message; returns its code (0 if nothing is recorded). */
int err_wrap(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts text behind a recorded message; returns its code (0 if nothing is recorded). */
int err_more(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The error is another process's, or about it: its address goes to the front of `who`, and with ": " of the message.
 * Returns the code. */
int err_of(err *e, const char *who);
/* The same without a word in the message, at the end of `who`. */
int err_also(err *e, const char *who);
/* Whether this process is the first of `who`. */
bool err_is_of(const err *e, const char *who);
/* The message without the name that err_of has put in front of it. */
const char *err_own(const err *e);
/* The message with the first `name` in it written as `as`. */
void err_rename(err *e, const char *name, const char *as);

/* HTTP status that goes with a code; 500 for unknown codes. */
int err_http(int code);
