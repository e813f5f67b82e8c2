/* hub_http.h - requests over HTTP by libcurl, which is loaded when the first one is made; nothing else uses it.
 *
 * Redirects are followed here, step by step: only to http and https, never from https to http, and a token goes to
 * nobody but the host that the request began with. */
#pragma once
#include "base/buf.h"
#include "hub/hub_reply.h"

#include <stdatomic.h>

typedef struct hub_http hub_http; /* one thread's; connections stay open between its requests */

int hub_http_open(hub_http **out, err *e);
void hub_http_close(hub_http *h); /* NULL ok */

/* Takes bytes of the body of a reply of status 200 or 206; an error ends the request with it. */
typedef int hub_take(void *to, const void *p, size_t n, err *e);

typedef struct hub_request {
    const char *url;
    const char *file;  /* of the repository, for messages; NULL: it is not for a file */
    const char *token; /* "": none */
    bool head;         /* asks for the head alone: of the last reply of this host where that names the file */
    /* A range of a file of known size; `from` grows as bytes are taken, so that the same request goes on where it
     * broke. total 0: whatever comes. */
    uint64_t from, end, total;
    const char *etag; /* which the file must have; NULL: any */
    hub_take *take;
    void *to;
    const atomic_bool *stop;
    _Atomic double *heard; /* clock_now when bytes that were asked for came last */
} hub_request;

/* One attempt. OK: *head is the last reply, whatever its status, with etags and commit of the request's own host.
 * ERR_UNAVAILABLE: the connection failed, or ended too early; ERR_CANCELLED: *stop; ERR_FORMAT: the reply is
 * refused. */
int hub_http_ask(hub_http *h, hub_request *q, hub_head *head, err *e);
/* A text as part of a URL: what is no letter, digit, or one of "-._~/" as %XX. */
bool hub_url_add(buf *url, const char *text);
