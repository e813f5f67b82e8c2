/* forecast.c - see forecast.h. */
#include "measure/forecast.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "measure/busy.h"
#include "measure/cost.h"
#include "engine/engine_state.h"

#include <stdlib.h>

enum { TOKENS_MIN = 4, TOKENS_MAX = 512, PROMPTS_MAX = 9 };
static const double TOKEN_SECONDS = 0.4, PROMPT_SECONDS = 1.5, AGAIN_SECONDS = 4;

/* One text. */
typedef struct attempt {
    engine *g;
    busy_marks marks;
    double until, begin, end; /* when the first token came, and the last */
    int n, most;              /* tokens */
    err failed;
} attempt;

static bool on_token(void *ctx, const token_event *ev)
{
    attempt *a = ctx;
    const double now = clock_now();
    if (ev->error) err_set(&a->failed, ERR_IO, "%s", ev->error);
    if (ev->token < 0 && !ev->pooled && !ev->scores) return true;
    if (a->n == 0) {
        a->begin = now;
        a->until = now + TOKEN_SECONDS;
        if (a->most > 1) busy_mark(&a->marks, a->g);
    }
    a->end = now;
    a->n++;
    return a->n < a->most && (a->n < TOKENS_MIN || now < a->until);
}

/* Runs a prompt and so many tokens; *first: seconds until the first of them, or the vector of an encoder. */
static int run_attempt(attempt *a, int64_t prompt, int tokens, double *first, err *e)
{
    const engine_info *info = &a->g->info;
    const int32_t n_vocab = info->n_enc_vocab ? info->n_enc_vocab : info->n_vocab;
    int32_t *ids = mem_array((size_t)prompt, sizeof *ids);
    if (!ids) return err_memory(e, "a prompt");
    for (int64_t i = 0; i < prompt; i++) ids[i] = (int32_t)(rng_bits(1, 2, (uint64_t)i) % (uint64_t)n_vocab);
    query q = {.ids = ids,
               .n_ids = (size_t)prompt,
               .max_tokens = tokens,
               .ignore_eos = true,
               .pooled = !info->generates,
               .n_logprobs = -1,
               .unshared = true,
               .on_token = on_token,
               .ctx = a};
    if (info->n_enc_vocab) {
        q.enc_ids = ids;
        q.n_enc = q.n_ids;
        q.ids = info->start;
        q.n_ids = (size_t)info->n_start;
    }
    a->n = 0;
    a->most = tokens;
    a->failed = (err){0};
    bool more = true;
    uint64_t id;
    const double start = clock_now();
    busy_mark(&a->marks, a->g);
    int rc = engine_add_query(a->g, &q, &id, e);
    while (!rc && more) rc = engine_infer(a->g, &more, e);
    mem_free(ids);
    if (!rc && a->failed.code) rc = err_copy(e, &a->failed);
    if (!rc && !a->n) rc = err_set(e, ERR_IO, "a text was given up while a device was tried");
    *first = rc ? 0 : a->begin - start;
    return rc;
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The cost of all chunks after the first, in units of the second chunk's: later rows see more keys. */
static double chunks_after(const engine *g, int64_t prompt)
{
    const int64_t chunk = g->chunk;
    double all = 0, second = 0;
    for (int64_t at = chunk; at < prompt; at += chunk) {
        const int64_t rows = prompt - at < chunk ? prompt - at : chunk;
        const step_cost c = engine_cost_of(g, rows, 0, at + rows);
        all += c.flops + c.int8_ops;
        if (at == chunk) second = all;
    }
    return second > 0 ? all / second : (double)(prompt - chunk) / (double)chunk;
}

/* Reads the prompt, or the beginning of one that takes long. */
static int try_prompt(attempt *a, int64_t prompt, double *first, err *e)
{
    const engine *g = a->g;
    const int64_t chunk = g->info.generates && !g->info.n_enc_vocab ? g->chunk : prompt;
    if (prompt <= chunk) return run_attempt(a, prompt, 1, first, e);
    double one, two;
    int rc = run_attempt(a, chunk, 1, &one, e);
    if (!rc && (one * (double)prompt <= PROMPT_SECONDS * (double)chunk || prompt <= 2 * chunk))
        return run_attempt(a, prompt, 1, first, e);
    if (!rc) rc = run_attempt(a, 2 * chunk, 1, &two, e);
    *first = rc ? 0 : one + (two - one) * chunks_after(g, prompt);
    return rc;
}

/* The median of several attempts, where they are short: the first of these touches memory, and does not count. */
static int try_prompts(attempt *a, int64_t prompt, double *first, err *e)
{
    double took[PROMPTS_MAX];
    int n = 0, rc = try_prompt(a, prompt, first, e);
    if (rc || *first > AGAIN_SECONDS) return rc;
    const int least = *first > PROMPT_SECONDS ? 1 : 3;
    const double until = clock_now() + PROMPT_SECONDS / 3;
    while (!rc && n < PROMPTS_MAX && (n < least || clock_now() < until)) rc = try_prompt(a, prompt, &took[n++], e);
    qsort(took, (size_t)n, sizeof *took, compare_seconds);
    *first = took[(n - 1) / 2];
    return rc;
}

/* Seconds per token of each device, from the marks on; the longest. */
static void set_busy(forecast *f, const attempt *a, double tokens)
{
    f->n = a->marks.n;
    for (int i = 0; i < f->n; i++) {
        f->busy[i] = busy_of(&a->marks, a->g, i) / tokens;
        if (f->busy[i] > f->busy[f->slowest]) f->slowest = i;
    }
}

int forecast_make(forecast *out, engine *g, int64_t prompt, err *e)
{
    attempt a = {.g = g};
    const bool generates = g->info.generates;
    const int tokens = g->info.ctx / 4 < TOKENS_MAX ? g->info.ctx / 4 : TOKENS_MAX;
    const int64_t room = g->info.ctx - (generates ? tokens : 0);
    double unused;
    int rc = busy_open(&a.marks, g, e);
    *out = (forecast){.prompt = prompt < room ? prompt : room > 0 ? room : 1};
    out->busy = mem_zero((size_t)a.marks.n + 1, sizeof *out->busy);
    if (!rc && !out->busy) rc = err_memory(e, "times of devices");
    if (!rc) rc = run_attempt(&a, 1, 2, &unused, e); /* pages and caches are touched */
    if (!rc) rc = try_prompts(&a, out->prompt, &out->first, e);
    if (!rc && !generates) {
        out->communicates = out->first * busy_rest(&a.marks, g, out->first);
        set_busy(out, &a, 1);
    }
    if (!rc && generates) rc = run_attempt(&a, out->prompt < g->chunk ? out->prompt : g->chunk, tokens, &unused, e);
    if (!rc && a.n > 1) {
        out->token = (a.end - a.begin) / (a.n - 1);
        out->communicates = out->token * busy_rest(&a.marks, g, a.end - a.begin);
        set_busy(out, &a, a.n - 1);
    }
    if (out->n == 1) out->communicates = 0; /* what else the engine does */
    busy_close(&a.marks);
    if (rc) forecast_free(out);
    return rc;
}

void forecast_free(forecast *f)
{
    mem_free(f->busy);
    *f = (forecast){0};
}
