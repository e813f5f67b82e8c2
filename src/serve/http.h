/* http.h - the listener: sockets in, exchanges out. http.c is the only file that knows libmicrohttpd. */
#pragma once
#include "serve/server.h"

typedef struct http http;

/* Listens and answers from now on; the address and limits are those of s->o, s->loopback is set. */
int http_open(http **out, server *s, err *e);
int http_port(const http *h);
/* Reads certificate and key again: new connections get them, those that are open go on. Where that fails, nothing
 * changes. */
int http_reload(http *h, err *e);
/* New connections are refused from here on. */
void http_quiesce(http *h);
/* Requests at work: their reply is not finished. */
int http_active(const http *h);
/* Requests whose body is not here yet. */
int http_receiving(const http *h);
/* Ends what is still open and all threads. NULL ok. */
void http_close(http *h);
