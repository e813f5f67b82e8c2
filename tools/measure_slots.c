/* measure_slots.c - what models with slots pay: for guesses that are wrong, and for depth.
 *
 *     measure_slots drafts SLOTS PLAIN [GUESSES [TOKENS [ROUNDS]]]
 *     measure_slots depth MODEL [DEPTH [TOKENS]]
 *
 * drafts: a model with slots and one of the same bytes without generate as many tokens greedily, without guesses and
 * with GUESSES a step, in turns, so that what else the machine does meets all four alike. Guesses cost nothing
 * themselves: the tokens are known from the first run, and half of them are replaced, by a hash of the place.
 *
 * depth: a text of DEPTH tokens is generated while the memory of the process is watched; then TOKENS more, in turns
 * with tokens of texts that have just begun. */
#include "engine/engine_state.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROMPT = 20, TOKENS_MAX = 1024, ROUNDS_MAX = 64 };

typedef struct subject {
    const char *path;
    engine *plain, *guessing; /* depth: of short texts, of the long one */
    int32_t token[TOKENS_MAX];
    int n, known; /* of this run, of the first one */
    double seconds[2][ROUNDS_MAX];
} subject;

static int guesses = 4, tokens = 100, rounds = 9, depth = 20000;

static void stop(const char *what, const err *e)
{
    fprintf(stderr, "measure_slots: %s: %s\n", what, e->msg);
    exit(1);
}

static bool on_token(void *ctx, const token_event *ev)
{
    subject *s = ctx;
    if (ev->token < 0 || ev->index < 0) return true;
    if (s->known && s->n < s->known && s->token[s->n] != ev->token) stop(s->path, &(err){.msg = "other tokens"});
    s->token[s->n++] = ev->token;
    return true;
}

/* What follows, with half of the tokens wrong. */
static void guess_half(void *self, session **who, int n)
{
    const subject *t = self;
    const int32_t n_vocab = engine_describe(t->guessing)->n_vocab;
    for (int j = 0; j < n; j++)
        for (int k = 0; k < who[j]->draft.n; k++) {
            const int64_t at = who[j]->n_ids - who[j]->n_prompt + k;
            const int32_t id = at < t->known ? t->token[at] : 0;
            who[j]->ids[who[j]->n_ids + k] = rng_mix((uint64_t)at) % 2 ? id : (id + 1) % n_vocab;
        }
}

static const draft_kind half = {.name = "half", .guess = guess_half};

static engine *open_one(const char *path, bool guess)
{
    const engine_options o = {.model = path,
                              .draft = guess ? "ngram" : NULL,
                              .draft_max = guesses,
                              .ctx = PROMPT + TOKENS_MAX + depth,
                              .threads = 1, /* engines of more would wait for each other */
                              .max_batch = 1};
    engine *g;
    err e = {0};
    if (engine_open(&g, &o, &e)) stop(path, &e);
    return g;
}

static void add_query(subject *t, engine *g, int most, bool (*take)(void *ctx, const token_event *ev))
{
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = 3 + i;
    const query q = {.ids = ids,
                     .n_ids = PROMPT,
                     .max_tokens = most,
                     .ignore_eos = true,
                     .sample = {.top_p = 1, .repetition_penalty = 1, .typical_p = 1, .tfs_z = 1, .fsd_n = 1},
                     .beams = 1,
                     .length_penalty = 1,
                     .n_logprobs = -1,
                     .unshared = true,
                     .on_token = take,
                     .ctx = t};
    uint64_t id;
    err e = {0};
    t->n = 0;
    if (engine_add_query(g, &q, &id, &e)) stop(t->path, &e);
}

static bool do_step(const subject *t, engine *g)
{
    bool more;
    err e = {0};
    for (session *s = g->running; s; s = s->next) /* guesses are made however few held */
        s->draft.acceptance = 0.9f, s->draft.known = true, s->draft.backoff_left = 0;
    if (engine_infer(g, &more, &e)) stop(t->path, &e);
    return more;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *of, int n)
{
    double sorted[TOKENS_MAX];
    memcpy(sorted, of, (size_t)n * sizeof *of);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ---- drafts */

/* Seconds of a token. */
static double run_once(subject *t, engine *g)
{
    double from = now();
    add_query(t, g, tokens, on_token);
    while (do_step(t, g))
        if (t->n == 1) from = now();
    if (t->n != tokens) stop(t->path, &(err){.msg = "too few tokens"});
    t->known = t->n;
    return (now() - from) / (tokens - 1);
}

static void open_both(subject *t, const char *path)
{
    *t = (subject){.path = path, .plain = open_one(path, false)};
    t->guessing = open_one(path, true);
    t->guessing->guesses.kind = &half;
    t->guessing->guesses.self = t;
    run_once(t, t->plain);
    run_once(t, t->guessing);
}

static void report(subject *t)
{
    engine_stats st;
    engine_get_stats(t->guessing, &st);
    printf("%-40s %7.3f ms a token, with guesses %7.3f, %lld of %lld held\n", t->path,
           1e3 * median(t->seconds[0], rounds), 1e3 * median(t->seconds[1], rounds), (long long)st.draft_accepted,
           (long long)st.draft_tokens);
    t->guessing->guesses = (draft){.who = t->guessing->guesses.who};
    engine_close(t->plain);
    engine_close(t->guessing);
}

static void measure_drafts(char **paths)
{
    static subject of[2];
    double plain[ROUNDS_MAX], with[ROUNDS_MAX], cost[ROUNDS_MAX];
    depth = 0;
    for (int i = 0; i < 2; i++) open_both(&of[i], paths[i]);
    for (int r = 0; r < rounds; r++) {
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 2; i++) of[i].seconds[k][r] = run_once(&of[i], k ? of[i].guessing : of[i].plain);
        plain[r] = of[0].seconds[0][r] / of[1].seconds[0][r];
        with[r] = of[0].seconds[1][r] / of[1].seconds[1][r];
        cost[r] = with[r] / plain[r];
    }
    for (int i = 0; i < 2; i++) report(&of[i]);
    printf("time with slots over without: %.3f, with guesses %.3f, of guesses alone %.3f (medians of %d rounds)\n",
           median(plain, rounds), median(with, rounds), median(cost, rounds), rounds);
}

/* ---- depth */

static bool count_token(void *ctx, const token_event *ev)
{
    subject *s = ctx;
    s->n += ev->token >= 0 && ev->index >= 0;
    return true;
}

/* Resident memory of this process, without that of files. */
static long held_kib(void)
{
    char line[200];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1) break;
    if (f) fclose(f);
    return kib;
}

static void measure_depth(const char *path)
{
    static subject far, near;
    double seconds[2][TOKENS_MAX];
    long first = 0, last = 0;
    near = far = (subject){.path = path};
    far.guessing = open_one(path, false);
    near.plain = open_one(path, false);
    add_query(&near, near.plain, tokens + 10, count_token);
    while (near.n < 5) do_step(&near, near.plain);
    add_query(&far, far.guessing, depth + tokens + 10, count_token);
    while (far.n < depth) {
        do_step(&far, far.guessing);
        last = held_kib();
        if (far.n == 300) first = last;
        if (far.n % 2000 == 0) printf("%6d tokens: %ld KiB\n", far.n, last), fflush(stdout);
    }
    for (int i = 0; i < tokens; i++)
        for (int j = 0; j < 2; j++) {
            const int k = (i + j) % 2;
            const double from = now();
            do_step(k ? &far : &near, k ? far.guessing : near.plain);
            seconds[k][i] = now() - from;
        }
    printf("memory after %d tokens: %ld KiB more than after 300\n", depth, last - first);
    printf("a token at depth 0: %.3f ms, at %d: %.3f ms: speed %.3f of it (medians of %d)\n",
           1e3 * median(seconds[0], tokens), depth, 1e3 * median(seconds[1], tokens),
           median(seconds[0], tokens) / median(seconds[1], tokens), tokens);
    engine_close(far.guessing);
    engine_close(near.plain);
}

static int number(int argc, char **argv, int i, int least, int most, int otherwise)
{
    const int n = i < argc ? atoi(argv[i]) : otherwise;
    if (n < least || n > most) stop(argv[i], &(err){.msg = "no number, or out of bounds"});
    return n;
}

int main(int argc, char **argv)
{
    const bool drafts = argc > 3 && !strcmp(argv[1], "drafts");
    if (!drafts && (argc < 3 || strcmp(argv[1], "depth"))) {
        fputs("usage: measure_slots drafts SLOTS PLAIN [GUESSES [TOKENS [ROUNDS]]]\n"
              "       measure_slots depth MODEL [DEPTH [TOKENS]]\n",
              stderr);
        return 2;
    }
    if (drafts) {
        guesses = number(argc, argv, 4, 1, 16, guesses);
        tokens = number(argc, argv, 5, 2, TOKENS_MAX, tokens);
        rounds = number(argc, argv, 6, 1, ROUNDS_MAX, rounds);
        measure_drafts(argv + 2);
    } else {
        depth = number(argc, argv, 3, 400, 1 << 20, depth);
        tokens = number(argc, argv, 4, 2, TOKENS_MAX, tokens);
        measure_depth(argv[2]);
    }
    return 0;
}
