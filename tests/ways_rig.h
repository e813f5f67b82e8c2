/* ways_rig.h - for tests: a model computed in several ways, which all give the same bits: other devices, other numbers
 * of steps in flight, other chunks.
 *
 * What is compared with one step after the other on the CPU: logits and hidden states of all rows, texts drawn for
 * four queries at once with log-probabilities or among the best logits, a beam search, vectors and scores. */
#pragma once
#include "cpu/cpu_backend.h"
#include "fake/fake_backend.h"
#include "sites.h"
#include "transcript_rig.h"

#ifdef HAVE_CUDA
#include "cuda/cuda_backend.h"
#define WAYS_CUDA &cuda_backend
#else
#define WAYS_CUDA NULL
#endif

enum { NEW_TOKENS = 9 };

typedef struct way {
    const char *devices;
    int in_flight, chunk;
    ends_choice ends;
    int kv_host;
    bool brief; /* queries generate four tokens; models that generate are compared without hidden states */
} way;

static inline bool take_token(void *ctx, const token_event *ev)
{
    const reader *r = ctx;
    add(r->to, &ev->token, sizeof ev->token);
    add(r->to, &ev->logprob, sizeof ev->logprob);
    add(r->to, &ev->score, sizeof ev->score);
    add(r->to, &ev->finish, sizeof ev->finish);
    for (int32_t i = 0; i < ev->n_top; i++) {
        add(r->to, &ev->top[i].id, sizeof ev->top[i].id);
        add(r->to, &ev->top[i].logprob, sizeof ev->top[i].logprob);
    }
    return add_vectors(r, ev);
}

static inline void run_all(engine *g, const inputs *x, int tokens, transcript *t)
{
    const engine_info *i = engine_describe(g);
    const bool pooled = i->n_pooled || i->n_score;
    query q[QUERIES_MAX];
    for (int k = 0; k < QUERIES_MAX; k++)
        q[k] = (query){.pooled = pooled,
                       .max_tokens = tokens,
                       .sample = {.temperature = k == 1 || k == 4 ? 0.9 : 0,
                                  .top_k = k == 4 ? 5 : 0,
                                  .top_p = 0.9,
                                  .repetition_penalty = 1,
                                  .typical_p = 1,
                                  .tfs_z = 1,
                                  .fsd_n = 1,
                                  .seed = 7},
                       .beams = k == 3 && !pooled ? 3 : 1,
                       .length_penalty = 1,
                       .n_logprobs = k == 1   ? 0
                                     : k == 2 ? 2
                                              : -1,
                       .prompt_logprobs = k == 2 && !pooled,
                       .on_token = take_token};
    run_queries(g, x, q, QUERIES_MAX, t);
    engine_stats s;
    engine_get_stats(g, &s);
    assert_true(s.kv_usage == 0);
}

/* False: the model has fewer layers than devices. */
static inline bool transcribe(const char *folder, const inputs *x, const char *kv, const char *weights, const way *w,
                              transcript *t)
{
    const fake_options fake = {.delay = 60, .seed = 3};
    const backend_use more[] = {{&fake_backend, &fake}, {0}};
    const cpu_options one = {.threads = 1};
    const backend_use there[] = {{&cpu_backend, &one}, {&fake_backend, &fake}, {WAYS_CUDA}, {0}};
    sites nodes;
    const plan_remote remote = sites_of(&nodes, there);
    const engine_options o = {.model = folder,
                              .devices = w->devices,
                              .weights = weights,
                              .kv = kv,
                              .ctx = IDS_MAX,
                              .threads = 1,
                              .chunk = w->chunk,
                              .max_batch = 8,
                              .choices = {.in_flight = w->in_flight, .ends = w->ends},
                              .kv_host = w->kv_host,
                              .remote = &remote,
                              .more_backends = more};
    err e = {0};
    engine *g = open_cut(&o);
    if (!g) return false;
    *t = (transcript){.ended = 0};
    const engine_info *i = engine_describe(g);
    const query q = inputs_query(x);
    rows_to states = {&t->of[0], engine_width(g, 1)};
    add_logits(g, &q, &t->of[0]);
    if (!w->brief || !i->generates) assert_ok(engine_eval_query(g, &q, 1, add_rows, &states, &e), &e); /* by a tap */
    if (i->generates || i->n_pooled || i->n_score) run_all(g, x, w->brief ? 4 : NEW_TOKENS, t);
    engine_close(g);
    return true;
}

static int compared; /* ways */

/* Number of ways that give other bits. */
static inline int compare(const char *folder, const inputs *x, const char *kv, const char *weights, const way *w, int n)
{
    const way plain = {"cpu", 1, 128, .brief = w->brief};
    transcript want, got;
    int wrong = 0;
    assert_true(transcribe(folder, x, kv, weights, &plain, &want));
    for (; n--; w++) {
        if (!transcribe(folder, x, kv, weights, w, &got)) continue;
        compared++;
        const char *ends = w->ends ? "away" : "home";
        for (int k = 0; k <= QUERIES_MAX; k++)
            if (!same_bytes(&want.of[k], &got.of[k])) {
                printf("%s, cache %s, weights %s: %s %d differ on %s, ends %s, with %d in flight, chunk %d\n", folder,
                       kv, weights ? weights : "as stored", k ? "tokens of query" : "rows", k, w->devices, ends,
                       w->in_flight, w->chunk);
                wrong++;
            }
        transcript_free(&got);
    }
    transcript_free(&want);
    return wrong;
}
