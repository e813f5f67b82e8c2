/* metrics.c - see metrics.h. */
#include "serve/metrics.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>

static const double bound[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
enum { BOUNDS = sizeof bound / sizeof *bound, PEERS_MAX = 64 };

/* Statuses the server sends; anything else is counted under the last. */
static const int status_known[] = {200, 204, 400, 401, 403, 404, 405, 413, 429, 499, 500, 503};
enum { STATUSES = sizeof status_known / sizeof *status_known };

typedef struct histogram {
    atomic_uint_fast64_t bucket[BOUNDS + 1];
    atomic_uint_fast64_t nanoseconds;
} histogram;

struct metrics {
    const char **endpoint;
    int n_endpoints;
    histogram h[HISTOGRAM_COUNT];
    atomic_uint_fast64_t *requests; /* [n_endpoints + 1][STATUSES + 1] */
};

metrics *metrics_open(int n_endpoints)
{
    metrics *m = mem_zero(1, sizeof *m);
    if (!m) return NULL;
    m->n_endpoints = n_endpoints;
    m->endpoint = mem_zero((size_t)n_endpoints, sizeof *m->endpoint);
    m->requests = mem_zero((size_t)(n_endpoints + 1) * (STATUSES + 1), sizeof *m->requests);
    if (m->endpoint && m->requests) return m;
    metrics_close(m);
    return NULL;
}

void metrics_label(metrics *m, int endpoint, const char *path) { m->endpoint[endpoint] = path; }

void metrics_close(metrics *m)
{
    if (!m) return;
    mem_free(m->endpoint);
    mem_free(m->requests);
    mem_free(m);
}

void metrics_observe(metrics *m, histogram_id id, double seconds)
{
    histogram *h = &m->h[id];
    int i = 0;
    while (i < BOUNDS && seconds > bound[i]) i++;
    atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
    if (seconds > 0) atomic_fetch_add_explicit(&h->nanoseconds, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}

void metrics_request(metrics *m, int endpoint, int status)
{
    int row = endpoint < 0 || endpoint >= m->n_endpoints ? m->n_endpoints : endpoint, i = 0;
    while (i < STATUSES && status_known[i] != status) i++;
    atomic_fetch_add_explicit(&m->requests[row * (STATUSES + 1) + i], 1, memory_order_relaxed);
}

static void print_head(buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP inferflow_%s %s\n# TYPE inferflow_%s %s\n", name, help, name, type);
}

static void print_value(buf *out, const char *name, const char *type, const char *help, double value)
{
    print_head(out, name, type, help);
    buf_printf(out, "inferflow_%s %.17g\n", name, value);
}

static void print_histogram(buf *out, histogram *h, const char *name, const char *help)
{
    print_head(out, name, "histogram", help);
    uint64_t sum = 0;
    for (int i = 0; i <= BOUNDS; i++) {
        sum += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        if (i < BOUNDS)
            buf_printf(out, "inferflow_%s_bucket{le=\"%g\"} %llu\n", name, bound[i], (unsigned long long)sum);
        else buf_printf(out, "inferflow_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)sum);
    }
    buf_printf(out, "inferflow_%s_sum %.9f\ninferflow_%s_count %llu\n", name, (double)h->nanoseconds * 1e-9, name,
               (unsigned long long)sum);
}

static void print_requests(metrics *m, buf *out)
{
    print_head(out, "requests_total", "counter", "Requests answered, by endpoint and status");
    for (int r = 0; r <= m->n_endpoints; r++)
        for (int i = 0; i <= STATUSES; i++) {
            uint64_t n = atomic_load_explicit(&m->requests[r * (STATUSES + 1) + i], memory_order_relaxed);
            if (!n) continue;
            char status[16] = "other";
            if (i < STATUSES) snprintf(status, sizeof status, "%d", status_known[i]);
            buf_printf(out, "inferflow_requests_total{endpoint=\"%s\",status=\"%s\"} %llu\n",
                       r < m->n_endpoints ? m->endpoint[r] : "other", status, (unsigned long long)n);
        }
}

static void print_peers(engine *g, buf *out)
{
    engine_peer *all = mem_array(PEERS_MAX, sizeof *all);
    const int n = all && g ? engine_peers(g, all, PEERS_MAX) : 0;
    if (n) print_head(out, "peer_up", "gauge", "Whether a node of --devices can be used");
    for (int i = 0; i < n; i++)
        buf_printf(out, "inferflow_peer_up{peer=\"%s\"} %d\n", all[i].name, all[i].state == ENGINE_PEER_UP);
    if (n) print_head(out, "link_rtt_seconds", "gauge", "Round trip to a node");
    for (int i = 0; i < n; i++)
        buf_printf(out, "inferflow_link_rtt_seconds{peer=\"%s\"} %.9g\n", all[i].name, all[i].rtt_ms / 1e3);
    mem_free(all);
}

bool metrics_print(metrics *m, engine *g, buf *out)
{
    engine_stats st = {0};
    if (g) engine_get_stats(g, &st);
    print_value(out, "prompt_tokens_total", "counter", "Prompt tokens that were read", (double)st.prompt_tokens);
    print_value(out, "prompt_tokens_cached_total", "counter", "Prompt tokens that needed no computation",
                (double)st.cached_tokens);
    print_value(out, "prefix_cache_queries_total", "counter", "Prompt tokens that were looked up in the prefix cache",
                (double)st.sought_tokens);
    print_value(out, "prefix_cache_hits_total", "counter", "Prompt tokens that were found there",
                (double)st.found_tokens);
    print_value(out, "generation_tokens_total", "counter", "Tokens generated", (double)st.generated_tokens);
    print_value(out, "requests_running", "gauge", "Queries that take part in steps", st.running);
    print_value(out, "requests_waiting", "gauge", "Queries that wait for a place", st.waiting);
    print_value(out, "recoveries_total", "counter", "Losses of nodes that were made good", (double)st.recoveries);
    print_value(out, "recomputed_tokens_total", "counter", "Tokens that had to be computed again",
                (double)st.recomputed_tokens);
    print_value(out, "kv_usage_ratio", "gauge", "Share of the KV cache in use", st.kv_usage);
    print_head(out, "kv_pages", "gauge", "Pages of the KV cache, by what they are for");
    buf_printf(out, "inferflow_kv_pages{state=\"used\"} %lld\n", (long long)st.pages_used);
    buf_printf(out, "inferflow_kv_pages{state=\"cached\"} %lld\n", (long long)st.pages_kept);
    buf_printf(out, "inferflow_kv_pages{state=\"free\"} %lld\n", (long long)st.pages_free);
    print_requests(m, out);
    print_peers(g, out);
    static const char *const name[][2] = {
#define X(id, name, help) {name, help},
        HISTOGRAM_LIST(X)
#undef X
    };
    for (int i = 0; i < HISTOGRAM_COUNT; i++) print_histogram(out, &m->h[i], name[i][0], name[i][1]);
    return !out->bad;
}
