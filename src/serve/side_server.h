/* side_server.h - a listener of a process that serves no model, with a few routes of its own: `inferflow node
 * --metrics`. Host, Origin, keys, limits, framing and log are those of the server. */
#pragma once
#include "serve/exchange.h"

typedef struct side_server side_server;

typedef struct side_options {
    const char *host;
    int port;                   /* 0 picks one */
    const char *flag;           /* that says both, for messages */
    const char *api_key_file;   /* NULL: no key is asked for */
    const char *allow_host;     /* as serve_options; NULL ok */
    const route *const *routes; /* [n_route] that find `ctx` in server.ctx */
    int n_route;
    void *ctx;
} side_options;

/* Listens and answers from now on; the strings and routes of o must outlive it. */
int side_server_open(side_server **out, const side_options *o, err *e);
int side_server_port(const side_server *s);
void side_server_close(side_server *s); /* NULL ok */
