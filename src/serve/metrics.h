/* metrics.h - counters and histograms in the Prometheus text format 0.0.4. All updates are atomic adds. */
#pragma once
#include "base/buf.h"
#include "engine/engine.h"

#include <stdbool.h>

/* X(type, name, value, help, vllm): one number each; value: an expression of engine_stats `st`; vllm: vLLM's name for
 * it, or NULL. */
#define METRIC_LIST(X)                                                                                                 \
    X(counter, "prompt_tokens_total", st.prompt_tokens, "Prompt tokens that were read", "prompt_tokens_total")         \
    X(counter, "prompt_tokens_cached_total", st.cached_tokens, "Prompt tokens that needed no computation", NULL)       \
    X(counter, "prefix_cache_queries_total", st.sought_tokens,                                                         \
      "Prompt tokens that were looked up in the prefix cache", "prefix_cache_queries_total")                           \
    X(counter, "prefix_cache_hits_total", st.found_tokens, "Prompt tokens that were found there",                      \
      "prefix_cache_hits_total")                                                                                       \
    X(counter, "generation_tokens_total", st.generated_tokens, "Tokens generated", "generation_tokens_total")          \
    X(counter, "preemptions_total", st.preemptions, "Caches that were given up because pages ran out",                 \
      "num_preemptions_total")                                                                                         \
    X(counter, "disk_pages_read_total", st.disk_read, "Pages of 64 tokens that came from --cache-dir", NULL)           \
    X(counter, "disk_pages_written_total", st.disk_written, "Pages of 64 tokens that went there", NULL)                \
    X(counter, "recoveries_total", st.recoveries, "Losses of nodes that were made good", NULL)                         \
    X(counter, "recomputed_tokens_total", st.recomputed_tokens, "Tokens that had to be computed again", NULL)          \
    X(counter, "draft_tokens_total", st.draft_tokens, "Tokens that --draft guessed",                                   \
      "spec_decode_num_draft_tokens_total")                                                                            \
    X(counter, "draft_accepted_total", st.draft_accepted, "Guesses of --draft that held",                              \
      "spec_decode_num_accepted_tokens_total")                                                                         \
    X(gauge, "requests_running", st.running, "Queries that take part in steps", "num_requests_running")                \
    X(gauge, "requests_waiting", st.waiting, "Queries that wait for a place", "num_requests_waiting")                  \
    X(gauge, "steps_in_flight", st.in_flight, "Steps under way", NULL)                                                 \
    X(gauge, "kv_usage_ratio", st.kv_usage, "Share of the KV cache in use", "kv_cache_usage_perc")

/* X(id, name, help, vllm): seconds, but for lengths, which are tokens */
#define HISTOGRAM_LIST(X)                                                                                              \
    X(FIRST_TOKEN, "time_to_first_token_seconds", "From the request's arrival to its first generated token",           \
      "time_to_first_token_seconds")                                                                                   \
    X(INTER_TOKEN, "inter_token_seconds", "Between two tokens of one choice", "inter_token_latency_seconds")           \
    X(QUEUE, "queue_seconds", "From the arrival of a query in the engine to its first step",                           \
      "request_queue_time_seconds")                                                                                    \
    X(DURATION, "request_duration_seconds",                                                                            \
      "From the head of a request that generates, embeds or ranks to the end of its reply",                            \
      "e2e_request_latency_seconds")                                                                                   \
    X(PROMPT, "prompt_tokens", "Prompt tokens of such a request", "request_prompt_tokens")                             \
    X(OUTPUT, "output_tokens", "Tokens that it generated", "request_generation_tokens")                                \
    X(STEP, "step_seconds", "One step of the engine", NULL)

typedef enum {
#define X(id, name, help, vllm) HISTOGRAM_##id,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
} histogram_id;

typedef struct metrics metrics;

/* n_endpoints labels; one more, "other", stands for all unknown paths. NULL: out of memory. */
metrics *metrics_open(int n_endpoints);
void metrics_label(metrics *m, int endpoint, const char *path); /* a literal */
void metrics_close(metrics *m);

void metrics_observe(metrics *m, histogram_id h, double value);
/* endpoint: 0 … n_endpoints - 1, -1 = other. */
void metrics_request(metrics *m, int endpoint, int status);

/* vLLM's word for it; a literal. */
const char *metrics_finish_name(finish_reason why);
/* A choice has ended; FINISH_CANCELLED: its client left. */
void metrics_finished(metrics *m, finish_reason why);

/* Prints everything, with the engine's own counters (g NULL while loading), for a model of this name. vllm: vLLM's
 * names besides. */
bool metrics_print(metrics *m, engine *g, const char *model, bool vllm, buf *out);
