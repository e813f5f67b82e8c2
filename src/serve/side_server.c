/* side_server.c - see side_server.h. */
#include "serve/side_server.h"

#include "base/log.h"
#include "base/mem.h"
#include "serve/http.h"
#include "serve/server.h"

struct side_server {
    server s;
    serve_options o;
    http *h;
};

int side_server_open(side_server **out, const side_options *o, err *e)
{
    side_server *s = *out = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, NULL);
    param_defaults(serve_param_rows, serve_param_count, &s->o);
    s->o.host = o->host;
    s->o.port = o->port;
    s->o.http_threads = 1;
    s->o.api_key_file = o->api_key_file;
    s->o.allow_host = o->allow_host;
    int rc = server_open_with(&s->s, &s->o, o->routes, o->n_route, e);
    s->s.ctx = o->ctx;
    s->s.addressed = o->flag;
    if (!rc) rc = http_open(&s->h, &s->s, e);
    if (!rc) {
        if (!s->s.loopback && !s->s.keys.n)
            log_line(LOG_WARN, "whoever reaches %s may read what %s tells: --api-key-file asks for a key", o->host,
                     o->flag);
        return OK;
    }
    side_server_close(s);
    *out = NULL;
    return rc;
}

int side_server_port(const side_server *s) { return http_port(s->h); }

void side_server_close(side_server *s)
{
    if (!s) return;
    http_close(s->h);
    server_close(&s->s);
    mem_free(s);
}
