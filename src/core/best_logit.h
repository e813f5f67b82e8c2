/* best_logit.h - the best logits of a row, which every device picks alike: one for the greedy pick, or those among
 * which a draw with top-k is made, so that a row of the vocabulary need not leave the device. */
#pragma once
#include <math.h>
#include <stdint.h>

enum { BEST_MAX = 256 }; /* that may be asked of a row */

typedef struct best_logit {
    int32_t id;
    float value; /* -inf: the row has no number */
} best_logit;

/* The greatest of a row of n logits, of equals the first; NaN counts as -inf. */
static inline best_logit logits_best(const float *row, int64_t n)
{
    best_logit best = {0, -INFINITY};
    for (int64_t i = 0; i < n; i++)
        if (row[i] > best.value) best = (best_logit){(int32_t)i, row[i]};
    return best;
}

/* The k greatest of what is added, k <= BEST_MAX: of equals those that came first. */
typedef struct best_list {
    best_logit *at; /* [k] the caller's */
    int32_t k, n;   /* n of k are there */
} best_list;

/* Ids ascend from call to call; -inf is left out. */
void best_list_add(best_list *l, best_logit x);
/* Orders them by id; where there are fewer than k, the rest is {-1, -inf}. */
void best_list_end(best_list *l);

/* The k best of a row of n logits as a best_list has them, k = 1: logits_best. A row with a NaN: {0, NaN}, then
 * {-1, -inf}. */
void logits_best_list(const float *row, int64_t n, int32_t k, best_logit *to);
