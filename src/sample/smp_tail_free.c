/* smp_tail_free.c - tail-free sampling (Phénix and Egan 2019, trentbrick.github.io/Tail-Free-Sampling): of the sorted
 * probabilities the absolute second differences, normalised; tokens are kept while their sum is at most z.
 *
 * Weights below 2^-24 of the best count as 0: all differences among them together are below the rounding of the first
 * one. The others are sorted by their bits, eleven at a time. */
#include "sample/sample_step.h"

#include <math.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static bool is_on(const sample_params *p) { return p->tfs_z < 1; }

static uint32_t digit(float x, int pass)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> pass * DIGIT_BITS & (DIGITS - 1);
}

/* n floats > 0, greatest first; *x and *y, which have room for them, may change places. */
static void sort_weights(float **x, float **y, int64_t n)
{
    uint32_t at[3][DIGITS] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int pass = 0; pass < 3; pass++) at[pass][digit((*x)[i], pass)]++;
    for (int pass = 0; pass < 3; pass++) {
        uint32_t sum = 0;
        bool moves = true;
        for (int d = DIGITS; d-- > 0;) {
            const uint32_t count = at[pass][d];
            moves = moves && count != (uint32_t)n;
            at[pass][d] = sum;
            sum += count;
        }
        if (!moves) continue;
        const float *from = *x;
        float *to = *y;
        for (int64_t i = 0; i < n; i++) to[at[pass][digit(from[i], pass)]++] = from[i];
        *x = to;
        *y = (float *)from;
    }
}

/* |(w[i] - w[i+1]) - (w[i+1] - w[i+2])|; there are zeros behind the n weights. */
static double difference(const float *w, int64_t n, int64_t i)
{
    const double a = w[i], b = i + 1 < n ? w[i + 1] : 0, c = i + 2 < n ? w[i + 2] : 0;
    return fabs((a - b) - (b - c));
}

static void cut(candidates *c, const sample_params *p)
{
    const float least = 0x1p-24f * c->scan->best(c->at.weight, c->n).value;
    const int64_t n = c->scan->keep(c->at.weight, c->n, least, INFINITY, &c->at, &c->spare);
    const int64_t zeros = c->n - n < 2 ? c->n - n : 2, n_difference = n + zeros - 2;
    float *sorted = c->spare.weight, *other = c->spare.key;
    double total = 0, sum = 0;
    int64_t kept = 0;
    sort_weights(&sorted, &other, n);
    for (int64_t i = 0; i < n_difference; i++) total += difference(sorted, n, i);
    while (kept < n_difference && (sum += difference(sorted, n, kept)) <= p->tfs_z * total) kept++;
    if (kept < n_difference) candidates_keep_best(c, kept ? kept : 1);
}

const sample_step smp_tail_free = {.is_on = is_on, .cut = cut};
