/* metrics.h - counters and histograms in the Prometheus text format 0.0.4. All updates are atomic adds. */
#pragma once
#include "base/buf.h"
#include "engine/engine.h"

#include <stdbool.h>

/* X(id, name, help): seconds */
#define HISTOGRAM_LIST(X)                                                                                              \
    X(FIRST_TOKEN, "time_to_first_token_seconds", "From the request's arrival to its first generated token")           \
    X(INTER_TOKEN, "inter_token_seconds", "Between two tokens of one choice")                                          \
    X(QUEUE, "queue_seconds", "From the arrival of a query in the engine to its first step")                           \
    X(DURATION, "request_duration_seconds", "From the head of a request to the end of its reply")

typedef enum {
#define X(id, name, help) HISTOGRAM_##id,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
} histogram_id;

typedef struct metrics metrics;

/* n_endpoints labels; one more, "other", stands for all unknown paths. NULL: out of memory. */
metrics *metrics_open(int n_endpoints);
void metrics_label(metrics *m, int endpoint, const char *path); /* a literal */
void metrics_close(metrics *m);

void metrics_observe(metrics *m, histogram_id h, double seconds);
/* endpoint: 0 … n_endpoints - 1, -1 = other. */
void metrics_request(metrics *m, int endpoint, int status);

/* Prints everything, with the engine's own counters (g NULL while loading). */
bool metrics_print(metrics *m, engine *g, buf *out);
