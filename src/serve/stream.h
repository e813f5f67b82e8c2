/* stream.h - a reply that is written on one thread and sent on another.
 *
 * The producer (the engine thread) appends bytes; the consumer (a connection) takes them and sleeps when there are
 * none. One mutex per stream is held around "nothing here: suspend" and around "append: wake the sleeper", so no
 * wake-up is lost. A consumer that falls behind makes the stream full: the producer then holds its own sequence back
 * until `drained`. A consumer that leaves makes it gone. The owner (a request) lives until both sides have dropped the
 * stream. */
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct stream stream;

enum {
    STREAM_FULL = 256 << 10, /* bytes waiting from which the producer is asked to pause */
    STREAM_LOW = 64 << 10    /* ... and below which it may go on */
};

/* What the producer's side wants to hear; called with no lock held. Any may be NULL. */
typedef struct stream_owner {
    void *ctx;
    void (*drained)(void *ctx); /* a full stream has room again */
    void (*gone)(void *ctx);    /* the consumer left before the end; once */
    void (*free)(void *ctx);    /* both sides dropped the stream */
} stream_owner;

/* How the consumer sleeps and is woken; both are called under the stream's lock and must not call the stream. */
typedef struct stream_waiter {
    void *ctx;
    void (*suspend)(void *ctx);
    void (*resume)(void *ctx);
} stream_waiter;

/* With one reference, the consumer's; each producer takes one more. */
int stream_open(stream **out, const stream_owner *owner, err *e);
void stream_keep(stream *s);
void stream_drop(stream *s);

/* Producer. The head is decided once, before the first byte; content_type is a literal. `live`: bytes go out as they
 * come (server-sent events); else the reply is sent whole after stream_end. */
void stream_start(stream *s, int status, const char *content_type, bool live);
bool stream_is_started(stream *s);
bool stream_write(stream *s, const void *p, size_t n); /* false: the consumer is gone, or memory is short */
void stream_end(stream *s);
bool stream_is_full(stream *s);
/* Adds to the tokens of its request: what the log tells. */
void stream_count(stream *s, int64_t prompt, int64_t generated);
/* The time of its first token, and why its last text ended, a literal: likewise. */
void stream_note_first(stream *s, double when);
void stream_note_end(stream *s, const char *why);
bool stream_is_gone(stream *s);

/* Consumer. */
void stream_attach(stream *s, const stream_waiter *w);
/* True when the head of a live reply, or the whole of another, can be sent; else the consumer was suspended. */
bool stream_ready(stream *s, int *status, const char **content_type, bool *live);
/* Bytes taken; 0: suspended; -1: the end. */
ssize_t stream_read(stream *s, void *p, size_t max);
size_t stream_waiting(stream *s); /* bytes that can be read now */
void stream_counts(stream *s, int64_t *prompt, int64_t *generated);
double stream_first(stream *s);           /* clock_now; 0: there is none */
const char *stream_end_reason(stream *s); /* NULL: none has been told */
void stream_leave(stream *s);             /* the consumer is going: wakes it if it sleeps, tells the owner once */
/* Keeps an idle live stream open through proxies: appends an SSE comment when nothing was written for `seconds`. */
void stream_ping(stream *s, double now, double seconds);
