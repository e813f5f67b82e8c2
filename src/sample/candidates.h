/* candidates.h - the tokens among which a draw is made, and cuts of them.
 *
 * They are columns in order of id: nothing is sorted. A cut looks for the value of a key down to which the best, taken
 * together, are enough (so many, or of so much mass): eight levels a pass over the column narrow the range in which it
 * lies until a few hundred tokens are left in it; these alone are sorted. Of equal keys the lowest ids come first, so
 * every cut has one answer. */
#pragma once
#include "core/vocab_scan.h"

#include <stdbool.h>

typedef struct candidates {
    const scan_ops *scan;
    /* [n] logit minus the best one, over the temperature; its exponential; id */
    scan_columns at;
    int64_t n;   /* some of them may be gone: their key is -inf, their weight 0 */
    double mass; /* of their weights */
    float *sums; /* of blocks of them */
    /* working memory [scan_room(n_vocab)]: where `at` goes on after the first cut; others */
    scan_columns own, spare;
    float *by;
    int32_t n_vocab;
} candidates;

/* Those of finite logits [n_vocab], which become c->at.key; `best` is the greatest of them. All ids: ids. */
void candidates_weigh(candidates *c, float best, double temperature);

void candidates_keep_best(candidates *c, int64_t k); /* the k of greatest key */
/* The fewest, of greatest `by` [n] first, whose weights sum to `mass`, one at least. `by` may be at.key; it changes. */
void candidates_keep_mass(candidates *c, float *by, double mass);
/* Those of at least this weight; where there is none, the best one. */
void candidates_keep_weight(candidates *c, double least);

/* Copies the k best of any weight to c->spare, best first; returns how many there are. */
int32_t candidates_list(candidates *c, int32_t k);

/* The place of the token at u, 0 <= u < 1, of the mass, in order of id. */
int64_t candidates_draw(const candidates *c, double u);
