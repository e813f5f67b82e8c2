/* candidates.h - the tokens among which a draw is made: a range of the vocabulary ordered by logit, then by lower id,
 * so that every cut has one answer.
 *
 * They are sorted only as far as somebody asks: a heap built in O(V) gives the best first. Probabilities use our own
 * exp, so the same logits give the same token on every machine. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct candidates {
    const float *logit;        /* [n_vocab] */
    int32_t *heap;             /* [n_vocab] ids: a heap, then the n_sorted that were taken from it, best last */
    int32_t n_vocab, n_sorted; /* n_sorted -1: there is no heap yet */
    float best;                /* the highest logit */
    double temperature;
    /* those that are left: the begin-th best to the one before the end-th; of these no more once their weights sum to
     * mass_max (INFINITY: no bound), nor those of less weight than weight_min (0: no bound); always the first */
    int32_t begin, end;
    double mass_max, weight_min;
} candidates;

/* The sum of the weights of those that are left. The bounds become an `end`, so that a step can look at them. */
double candidates_mass(candidates *c);

/* The token at u, 0 <= u < 1, of the mass: of those that are left, best first; of the whole vocabulary, by id. */
int32_t candidates_draw(candidates *c, double u);
int32_t candidates_draw_by_id(candidates *c, double u);
