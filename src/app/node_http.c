/* node_http.c - see node_http.h. What a node has done comes from src/net, the listener and the text format from
 * src/serve; neither knows the other. */
#include "app/node_http.h"

#include "base/mem.h"
#include "serve/prometheus.h"
#include "serve/server.h"
#include "serve/side_server.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

struct node_http {
    side_server *s;
    _Atomic(node *) n; /* NULL: not ready */
    address at;
};

/* X(type, name, value, help); value: an expression of node_report `r`. */
#define NODE_METRIC_LIST(X)                                                                                            \
    X(gauge, "leases", r.leases, "Leases that leaders have now: each a rank of a plan")                                \
    X(gauge, "leases_stalled", r.stalled, "Of these, with something to do here that has not moved for 15 s")           \
    X(counter, "leases_total", r.leases_so_far, "Leases that were asked for")                                          \
    X(counter, "leases_refused_total", r.leases_refused, "Of these, not granted; the log says why")                    \
    X(counter, "steps_total", r.steps, "Steps that ranks here have done")                                              \
    X(gauge, "steps_in_flight", r.steps_under_way, "Steps that leaders have sent and that are not done")               \
    X(counter, "compute_seconds_total", r.compute_seconds, "Time in which ranks here computed steps")                  \
    X(counter, "trials_total", r.trials, "Collectives that were measured for bench allreduce")                         \
    X(gauge, "memory_lent_bytes", r.memory_lent,                                                                       \
      "Bytes that leases have: weights that are not mapped, pages, buffers")                                           \
    X(gauge, "memory_left_bytes", r.memory_left, "Bytes that another lease could have")                                \
    X(gauge, "cache_bytes", r.cache_bytes, "Bytes of its disk that --cache takes")                                     \
    X(gauge, "connections", r.connections, "Processes that are connected: leaders, and ranks on other nodes")          \
    X(counter, "connections_refused_total", r.refused, "Connections refused at the door: no key, too slow, too many")  \
    X(counter, "copies_changed_total", r.copies_changed, "Files of own copies that were found changed on their disk")

typedef struct metric {
    const char *type, *name, *help;
    double value;
} metric;

static void print_bytes(const prom *to, const char *direction, const uint64_t by_use[USE_COUNT])
{
    static const char *const kind[USE_COUNT] = {[USE_STEP] = "step", [USE_DATA] = "data", [USE_WEIGHT] = "weight"};
    for (int i = 0; i < USE_COUNT; i++) {
        char label[80];
        snprintf(label, sizeof label, "direction=\"%s\",kind=\"%s\"", direction, kind[i] ? kind[i] : "");
        if (kind[i]) prom_value(to, "link_bytes_total", label, (double)by_use[i]);
    }
}

static void print_node(const prom *to, node *n)
{
    node_report r;
    node_look(n, &r);
    const metric all[] = {
#define X(type, name, value, help) {#type, name, help, (double)(value)},
        NODE_METRIC_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        prom_head(to, all[i].name, all[i].type, all[i].help);
        prom_value(to, all[i].name, "", all[i].value);
    }
    prom_head(to, "link_bytes_total", "counter", "Bytes of messages to and from leaders and other ranks, by their use");
    print_bytes(to, "sent", r.bytes.sent);
    print_bytes(to, "received", r.bytes.received);
}

static const char *print_id(node *n, char to[17])
{
    snprintf(to, 17, "%016" PRIx64, node_says(n)->node);
    return to;
}

static void handle_metrics(server *s, exchange *x)
{
    node *n = atomic_load(&((node_http *)s->ctx)->n);
    const prom to = {&x->out, "inferflow_", ""};
    char id[17];
    x->status = 200;
    x->content_type = PROMETHEUS_TYPE;
    prom_build(&to, "Release, commit and number of the node", "node", n ? print_id(n, id) : "");
    if (n) print_node(&to, n);
}

/* 503 while copies are compared at the start, and when the node takes no new leases. "degraded": work here stands
 * still. Where a key is asked for, who has none sees the status alone. */
static void handle_health(server *s, exchange *x)
{
    node *n = atomic_load(&((node_http *)s->ctx)->n);
    node_report r = {.leases = 0};
    char id[17];
    if (n) node_look(n, &r);
    json *root = json_new_object();
    json_add_str(root, "status", !n ? "starting" : r.drains ? "draining" : r.stalled ? "degraded" : "ok");
    if (n && exchange_has_key(s, x)) {
        json_add_str(root, "node", print_id(n, id));
        json_add_int(root, "leases", r.leases);
        json_add_int(root, "leases_stalled", r.stalled);
    }
    reply_json(x, n && !r.drains ? 200 : 503, root);
}

static const route metrics_route = {.method = "GET", .path = "/metrics", .is_probe = true, .handle = handle_metrics};
static const route health_route = {
    .method = "GET", .path = "/health", .open_to_all = true, .is_probe = true, .handle = handle_health};
static const route *const routes[] = {&metrics_route, &health_route};

int node_http_open(node_http **out, address *at, const char *api_key_file, const char *allow_host, err *e)
{
    node_http *h = *out = mem_zero(1, sizeof *h);
    if (!h) return err_memory(e, NULL);
    h->at = *at;
    const side_options o = {.host = h->at.host,
                            .port = h->at.port,
                            .flag = "--metrics",
                            .api_key_file = api_key_file,
                            .allow_host = allow_host,
                            .routes = routes,
                            .n_route = sizeof routes / sizeof *routes,
                            .ctx = h};
    int rc = side_server_open(&h->s, &o, e);
    if (!rc) {
        at->port = side_server_port(h->s);
        return OK;
    }
    mem_free(h);
    *out = NULL;
    return rc;
}

void node_http_tell(node_http *h, node *n) { atomic_store(&h->n, n); }

void node_http_close(node_http *h)
{
    if (!h) return;
    side_server_close(h->s);
    mem_free(h);
}
