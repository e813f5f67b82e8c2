/* snapshot_rig.h - for tests of prefixes that are shared up to the last snapshot of a state of fixed size: kinds of
 * models, ways to run them, texts that draw, search or tell log-probabilities. */
#pragma once
#include "text_rig.h"

enum { CTX = TEXT_CTX, TOKENS = 24, QUERIES = 6, COMMON = 600, STOP = SNAPSHOT_TOKENS };

static fake_log done;
static const fake_options fake_of_each = {.log = &done, .delay = 20};
static const backend_use more_backends[] = {{&fake_backend, &fake_of_each}, {0}};

/* What the layers are: convolutions and attention; and attention in a window; convolutions alone. */
enum { HYBRID, WINDOWED, ALONE, KINDS };

static inline engine *open_engine(engine_options o, int kind)
{
    model_shape of = text_shape(CTX);
    err e = {0};
    of.layers = kind == ALONE ? 3 : 4;
    of.window = kind == WINDOWED ? 70 : 0;
    of.taps = 100;
    of.only_taps = kind == ALONE;
    o.more_backends = more_backends;
    engine *g = text_engine(rig_model(&of, 7, CTX), o);
    if (o.draft) assert_ok(draft_open(&g->guesses, g, &e), &e);
    return g;
}

/* The third of each is a search with beams. */
static inline void make_searched(text *t, int k, int common, int n, int most)
{
    text_make(t, k, common, n, most);
    t->q.beams = k % 3 == 2 ? 3 : 1;
    t->q.n_logprobs = k % 3 == 1 ? 2 : -1;
}

static inline void run_alone(text *t, int kind)
{
    text_run_alone(open_engine((engine_options){.max_batch = 4}, kind), t);
}

static const text_way ways[] = {{NULL, 0, 0, 32},
                                {NULL, 0, 100, 6},
                                {"cpu:1&cpu:1", 2, 300, 32},
                                {"cpu&fake;fake", 4, 77, 32},
                                {"fake;fake", 5, 256, 9}};
enum { WAYS = sizeof ways / sizeof *ways };

static inline engine *open_way(int i, int kind, const char *guess)
{
    engine_options o = text_way_options(&ways[i]);
    o.draft = guess;
    return open_engine(o, kind);
}
