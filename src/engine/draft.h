/* draft.h - tokens that may come next, guessed at little cost, so that one step of the model checks several: a step of
 * a few rows takes about as long as one of a single row, because it is bound by reading weights. (Leviathan et al.,
 * "Fast inference from transformers via speculative decoding", 2023; Inferflow, section 8.)
 *
 * A guess is part of the step: its row gives the logits of the token after it, should it hold. The model draws with the
 * random number of each position, and a guess holds when it is what was drawn. So texts are the same with and without
 * guesses, at any temperature, whatever else is in the step; how many are made is only a matter of time. */
#pragma once
#include "engine/session.h"

/* Where guesses come from. */
typedef struct draft_source {
    const char *name; /* as --draft says it */
    /* Guesses of what follows n_ids ids, at most n; returns their number. */
    int (*guess)(const int32_t *ids, int64_t n_ids, int32_t *to, int n);
} draft_source;

extern const draft_source draft_ngram;

typedef struct draft {
    const draft_source *from; /* NULL: nothing is guessed */
    int most;                 /* guesses of a sequence in a step */
    /* The time of a step that generates, by its rows, is about step + row * rows: running sums of a least squares fit,
     * in which older steps count less. */
    double n, x, y, xx, xy;
} draft;

/* text: --draft, NULL: no guesses. ERR_USAGE. */
int draft_open(draft *d, const char *text, int64_t most, err *e);

/* A step of so many rows, all of them of sequences that generate, took so long. */
void draft_timed(draft *d, int rows, double seconds);

/* Guesses of a session that has one token left, in s->ids after its own: at most `most`, fewer as they cost more than
 * they are worth beside `others`, sequences that generate in the same step. Sets s->n_draft. */
void draft_guess(const draft *d, session *s, int others, int most);
/* What came of the guesses of a step: `held` of them. */
void draft_learn(session *s, int held);
