/* metrics.c - see metrics.h. */
#include "serve/metrics.h"

#include "base/json.h"
#include "base/mem.h"
#include "serve/prometheus.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const double bound[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
static const double tokens_bound[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                      500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
enum { BOUNDS = sizeof bound / sizeof *bound, PEERS_MAX = 64 };
_Static_assert(sizeof tokens_bound == sizeof bound, "as many buckets");

static const double *bounds_of(histogram_id id)
{
    return id == HISTOGRAM_PROMPT || id == HISTOGRAM_OUTPUT ? tokens_bound : bound;
}

/* Statuses the server sends; anything else is counted under the last. */
static const int status_known[] = {200, 204, 400, 401, 403, 404, 405, 413, 415, 429, 499, 500, 503};
enum { STATUSES = sizeof status_known / sizeof *status_known };

typedef struct histogram {
    atomic_uint_fast64_t bucket[BOUNDS + 1];
    atomic_uint_fast64_t billionths; /* of the sum */
} histogram;

struct metrics {
    const char **endpoint;
    int n_endpoints;
    histogram h[HISTOGRAM_COUNT];
    atomic_uint_fast64_t *requests; /* [n_endpoints + 1][STATUSES + 1] */
    atomic_uint_fast64_t finished[FINISH_ERROR + 1];
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

void metrics_observe(metrics *m, histogram_id id, double value)
{
    histogram *h = &m->h[id];
    const double *at = bounds_of(id);
    int i = 0;
    while (i < BOUNDS && value > at[i]) i++;
    atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
    if (value > 0) atomic_fetch_add_explicit(&h->billionths, (uint64_t)(value * 1e9), memory_order_relaxed);
}

const char *metrics_finish_name(finish_reason why)
{
    static const char *const reason[] = {[FINISH_NONE] = "none",
                                         [FINISH_STOP] = "stop",
                                         [FINISH_LENGTH] = "length",
                                         [FINISH_CANCELLED] = "abort",
                                         [FINISH_ERROR] = "error"};
    return reason[why];
}

void metrics_finished(metrics *m, finish_reason why)
{
    atomic_fetch_add_explicit(&m->finished[why], 1, memory_order_relaxed);
}

void metrics_request(metrics *m, int endpoint, int status)
{
    int row = endpoint < 0 || endpoint >= m->n_endpoints ? m->n_endpoints : endpoint, i = 0;
    while (i < STATUSES && status_known[i] != status) i++;
    atomic_fetch_add_explicit(&m->requests[row * (STATUSES + 1) + i], 1, memory_order_relaxed);
}

static void print_histogram(const prom *to, histogram *h, const double *at, const char *name, const char *help)
{
    char line[100], label[40];
    uint64_t sum = 0;
    prom_head(to, name, "histogram", help);
    snprintf(line, sizeof line, "%s_bucket", name);
    for (int i = 0; i <= BOUNDS; i++) {
        sum += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        if (i < BOUNDS) snprintf(label, sizeof label, "le=\"%.9g\"", at[i]);
        else snprintf(label, sizeof label, "le=\"+Inf\"");
        prom_value(to, line, label, (double)sum);
    }
    snprintf(line, sizeof line, "%s_sum", name);
    prom_value(to, line, "", (double)h->billionths * 1e-9);
    snprintf(line, sizeof line, "%s_count", name);
    prom_value(to, line, "", (double)sum);
}

/* Choices that ended, by why: vLLM's names of reasons. */
static void print_finished(metrics *m, const prom *to, const char *name, const char *key, const char *help)
{
    prom_head(to, name, "counter", help);
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++) {
        char label[60];
        snprintf(label, sizeof label, "%s=\"%s\"", key, metrics_finish_name((finish_reason)i));
        prom_value(to, name, label, (double)atomic_load_explicit(&m->finished[i], memory_order_relaxed));
    }
}

static void print_requests(metrics *m, const prom *to)
{
    prom_head(to, "requests_total", "counter", "Requests answered, by endpoint and status");
    for (int r = 0; r <= m->n_endpoints; r++)
        for (int i = 0; i <= STATUSES; i++) {
            uint64_t n = atomic_load_explicit(&m->requests[r * (STATUSES + 1) + i], memory_order_relaxed);
            if (!n) continue;
            char status[16] = "other";
            if (i < STATUSES) snprintf(status, sizeof status, "%d", status_known[i]);
            buf_printf(to->out, "inferflow_requests_total{endpoint=\"%s\",status=\"%s\"} %llu\n",
                       r < m->n_endpoints ? m->endpoint[r] : "other", status, (unsigned long long)n);
        }
}

static void print_traffic(const prom *to, const char *peer, const char *direction, const engine_traffic *t)
{
    const struct {
        const char *kind;
        uint64_t bytes;
    } kinds[] = {{"step", t->step}, {"data", t->data}, {"weight", t->weight}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        buf_printf(to->out, "inferflow_link_bytes_total{peer=\"%s\",direction=\"%s\",kind=\"%s\"} %llu\n", peer,
                   direction, kinds[i].kind, (unsigned long long)kinds[i].bytes);
}

static const struct peer_row {
    const char *type, *name, *help;
    size_t at;
    double unit;
} peer_rows[] = {
    {"gauge", "link_rtt_seconds", "Round trip to a node", offsetof(engine_peer, rtt_ms), 1e-3},
    {"gauge", "node_kv_usage_ratio", "Share of a node's KV cache in use", offsetof(engine_peer, kv_usage), 1},
    {"counter", "link_wait_seconds_total",
     "Time in which a node had a step, or waited for rows of one, and did not compute", offsetof(engine_peer, wait), 1},
};

static void print_peers(engine *g, const prom *to)
{
    engine_peer *all = mem_array(PEERS_MAX, sizeof *all);
    const int n = all && g ? engine_peers(g, all, PEERS_MAX) : 0;
    if (n) prom_head(to, "peer_up", "gauge", "Whether a node of --devices can be used");
    for (int i = 0; i < n; i++)
        buf_printf(to->out, "inferflow_peer_up{peer=\"%s\"} %d\n", all[i].name, all[i].state == ENGINE_PEER_UP);
    for (size_t k = 0; n && k < sizeof peer_rows / sizeof *peer_rows; k++) {
        const struct peer_row *r = &peer_rows[k];
        prom_head(to, r->name, r->type, r->help);
        for (int i = 0; i < n; i++)
            buf_printf(to->out, "inferflow_%s{peer=\"%s\"} %.9g\n", r->name, all[i].name,
                       *(const double *)((const char *)&all[i] + r->at) * r->unit);
    }
    if (n) prom_head(to, "link_bytes_total", "counter", "Bytes of messages to and from a node, by what they carry");
    for (int i = 0; i < n; i++) {
        print_traffic(to, all[i].name, "sent", &all[i].sent);
        print_traffic(to, all[i].name, "received", &all[i].received);
    }
    mem_free(all);
}

typedef struct metric_row {
    const char *type, *name, *help, *vllm;
    double value;
} metric_row;

/* What both vocabularies have. */
static void print_common(metrics *m, const engine_stats *stats, const prom *to, bool vllm)
{
    const engine_stats st = *stats;
    const metric_row rows[] = {
#define X(type, name, value, help, other) {#type, name, help, other, (double)(value)},
        METRIC_LIST(X)
#undef X
    };
    static const char *const name[][3] = {
#define X(id, name, help, other) {name, help, other},
        HISTOGRAM_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *called = vllm ? rows[i].vllm : rows[i].name;
        if (!called) continue;
        prom_head(to, called, rows[i].type, rows[i].help);
        prom_value(to, called, "", rows[i].value);
    }
    for (int i = 0; i < HISTOGRAM_COUNT; i++)
        if (!vllm || name[i][2])
            print_histogram(to, &m->h[i], bounds_of((histogram_id)i), vllm ? name[i][2] : name[i][0], name[i][1]);
}

static void print_vllm(metrics *m, const engine_stats *st, const char *model, buf *out)
{
    buf label = {0};
    buf_str(&label, "model_name=");
    json_quote(&label, span_str(model)); /* labels escape what JSON escapes */
    const prom to = {out, "vllm:", buf_cstr(&label)};
    print_common(m, st, &to, true);
    print_finished(m, &to, "request_success_total", "finished_reason", "Choices that have ended, by reason");
    out->bad |= label.bad;
    buf_free(&label);
}

bool metrics_print(metrics *m, engine *g, const char *model, bool vllm, buf *out)
{
    engine_stats st = {0};
    const prom to = {out, "inferflow_", ""};
    if (g) engine_get_stats(g, &st);
    prom_build(&to, "Release, commit and model", "model", model);
    print_common(m, &st, &to, false);
    prom_head(&to, "kv_pages", "gauge", "Pages of the KV cache, by what they are for");
    prom_value(&to, "kv_pages", "state=\"used\"", (double)st.pages_used);
    prom_value(&to, "kv_pages", "state=\"cached\"", (double)st.pages_kept);
    prom_value(&to, "kv_pages", "state=\"free\"", (double)st.pages_free);
    print_finished(m, &to, "finished_total", "reason", "Choices that have ended, by reason");
    print_requests(m, &to);
    print_peers(g, &to);
    if (vllm) print_vllm(m, &st, model, out);
    return !out->bad;
}
