/* api_metrics.c - GET /metrics in the Prometheus text format. */
#include "serve/api_list.h"
#include "serve/server.h"

static void handle_metrics(server *s, exchange *x)
{
    x->status = 200;
    x->content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_print(s->counts, atomic_load(&s->g), &x->out);
}

const route route_metrics = {.method = "GET", .path = "/metrics", .handle = handle_metrics};
