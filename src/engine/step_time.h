/* step_time.h - how long a step will take, by its rows and by what they look back at: a line fitted to the steps that
 * have run, in which older ones count less. It decides when something is computed, never what. */
#pragma once
#include "core/step.h"

enum { STEP_TIME_TERMS = 3 }; /* any step; a row; a position that a row sees */

typedef struct step_time {
    double xx[STEP_TIME_TERMS][STEP_TIME_TERMS], xy[STEP_TIME_TERMS]; /* sums of a least squares fit */
    double cost[STEP_TIME_TERMS];                                     /* seconds, none of them negative */
    int n;                                                            /* steps */
} step_time;

/* A step that has run took so long. */
void step_time_learn(step_time *t, const step *st, double seconds);
/* Of a step that is being filled. 0: nothing is known. */
double step_time_predict(const step_time *t, const step *st);
/* Of a step of `sequences`, each with one row after `depth` positions. 0: nothing is known. */
double step_time_of(const step_time *t, int sequences, int64_t depth);
/* Of `rows` more rows of a sequence, after `depth` positions. */
double step_time_rows(const step_time *t, int64_t rows, int64_t depth);
/* The rows that take so long there, at most `most`. */
int64_t step_time_fit(const step_time *t, double seconds, int64_t depth, int64_t most);
