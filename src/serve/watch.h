/* watch.h - sees what the HTTP library does not: clients that leave while nothing is sent, heads and bodies that never
 * end.
 *
 * One thread with its own epoll set, which sees EPOLLRDHUP of every connection; deadlines are looked at twice a second
 * and enforced by shutdown(2), which the listener's own threads then notice. A client that closes its sending half
 * counts as gone, as in other inference servers: of what it had sent whole, only text to generate is not answered. When
 * all is calm, freed memory goes back to the system. */
#pragma once
#include "base/err.h"
#include "serve/stream.h"

#include <stdbool.h>

typedef struct watch watch;

enum {
    WATCH_BODY_SECONDS = 300, /* a request's body */
    WATCH_IDLE_SECONDS = 75,  /* a connection between requests */
    WATCH_PING_SECONDS = 15,  /* silence in an event stream before a comment is sent */
    WATCH_LINGER_SECONDS = 2  /* how long a refused body is still read, so that the refusal arrives */
};

/* head_seconds: for a request's head. */
int watch_open(watch **out, double head_seconds, err *e);
void watch_close(watch *w); /* NULL ok */

void watch_add(watch *w, int fd);                    /* a new connection: its head is due */
void watch_body(watch *w, int fd);                   /* its head is complete: the body is due */
void watch_reply(watch *w, int fd, stream *pending); /* its reply is pending; NULL: no stream */
void watch_idle(watch *w, int fd);                   /* its reply was sent */
/* Before the socket is closed. linger: keep a duplicate and read what the client still sends. */
void watch_remove(watch *w, int fd, bool linger);
/* All pending streams are left: their clients get what is there and an end. */
void watch_leave_all(watch *w);
