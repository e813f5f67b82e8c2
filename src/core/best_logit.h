/* best_logit.h - the greedy pick, which every device makes alike. */
#pragma once
#include <math.h>
#include <stdint.h>

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
