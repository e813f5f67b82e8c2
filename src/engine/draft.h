/* draft.h - tokens that may come next, guessed at little cost, so that one step of the model checks several: a step of
 * a few rows takes about as long as one of a single row, because it is bound by reading weights. (Leviathan et al.,
 * "Fast inference from transformers via speculative decoding", 2023; Inferflow, section 8.)
 *
 * A guess is part of the step: its row gives the logits of the token after it, should it hold. The model draws with the
 * random number of each position, and a guess holds when it is what was drawn. So texts are the same with and without
 * guesses, at any temperature, whatever else is in the step; how many are made is only a matter of time. By the other
 * rules (sample/sample.h) more guesses hold, and texts depend on them. */
#pragma once
#include "engine/session.h"
#include "engine/step_time.h"

struct engine;

/* A way to guess. Members after `guess` are NULL where there is nothing to do. */
typedef struct draft_kind {
    const char *name;
    /* For n sessions, each with s->draft.n, how many it wants: writes guesses after its ids, and how many. */
    void (*guess)(void *self, session **who, int n);
    int (*add)(void *self, session *s, grammar *form, err *e); /* one of a new query, with its grammar; any thread */
    void (*drop)(void *self, session *s);                      /* it has ended: what is in a cache for it */
    int (*hash)(void *self, err *e);                           /* engine_hash_weights of what guesses */
    void (*close)(void *self);
} draft_kind;

extern const draft_kind draft_ngram;

typedef struct draft {
    const draft_kind *kind; /* NULL: nothing is guessed */
    void *self;
    session **who; /* [engine.most] for draft_guess */
    int most;      /* guesses of a sequence in a step */
    guess_rule rule;
    double each; /* seconds of one guess, for all sessions together */
} draft;

/* As g's options say; but a model that guesses is opened by the caller, for an engine that is open (draft_model.h). */
int draft_open(draft *d, struct engine *g, err *e);
void draft_close(draft *d); /* no session has a model_session any more */

/* ---- on the engine thread */
/* Guesses for those of n sessions, each with one token left, for which they are worth their time: sets s->draft.n. All
 * together at most `room`. t: what steps took. */
void draft_guess(draft *d, const step_time *t, session **who, int n, int64_t room);
/* What came of the guesses of a step: `held` of them. */
void draft_learn(session *s, int held);
