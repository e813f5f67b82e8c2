/* api_metrics.c - GET /metrics in the Prometheus text format. */
#include "serve/api_list.h"
#include "serve/prometheus.h"
#include "serve/server.h"

#include <string.h>

static void handle_metrics(server *s, exchange *x)
{
    x->status = 200;
    x->content_type = PROMETHEUS_TYPE;
    const bool vllm = s->o->metrics_as && strcmp(s->o->metrics_as, "vllm") == 0;
    metrics_print(s->counts, atomic_load(&s->g), server_model_name(s), vllm, &x->out);
}

const route route_metrics = {.method = "GET", .path = "/metrics", .is_probe = true, .handle = handle_metrics};
