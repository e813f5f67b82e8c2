/* smp_tail_free.c - tail-free sampling (Phénix and Egan 2019, trentbrick.github.io/Tail-Free-Sampling): of the sorted
 * probabilities the absolute second differences, normalised; tokens are kept while their sum is at most z.
 *
 * Weights below 2^-24 of the best count as 0: all differences among them together are below the rounding of the first
 * one. The others are sorted by their bits, a third of them at a time: 0.6 ms for 150 000 weights, three quarters of
 * this sampler. No faster there: quicksort with AVX-512 and networks of 256 (0.65 ms; of 20 000 weights half the time),
 * and two passes by the upper 22 bits before an insertion sort (0.7). */
#include "sample/sample_step.h"

#include <math.h>
#include <string.h>

static bool is_on(const sample_params *p) { return p->tfs_z < 1; }

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The weights of at least `least`, which are at most 2^24 times as much, greatest first; returns how many. */
static int64_t sort_weights(const float *x, int64_t n, float least, float *to, float *work)
{
    enum { PASSES = 3, DIGIT = 10, MASK = (1 << DIGIT) - 1 };
    const uint32_t zero = bits_of(least);
    uint32_t at[PASSES][MASK + 1] = {{0}};
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < least) continue;
        for (int p = 0; p < PASSES; p++) at[p][(bits_of(x[i]) - zero) >> p * DIGIT & MASK]++;
        work[held++] = x[i];
    }
    for (int p = 0; p < PASSES; p++) {
        uint32_t sum = 0;
        for (int d = MASK; d >= 0; d--) {
            const uint32_t count = at[p][d];
            at[p][d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < held; i++) to[at[p][(bits_of(work[i]) - zero) >> p * DIGIT & MASK]++] = work[i];
        float *other = work;
        work = to;
        to = other;
    }
    return held;
}

static void cut(candidates *c, const sample_params *p)
{
    const float least = 0x1p-24f * c->scan->best(c->at.weight, c->n).value;
    float *sorted = c->spare.weight, *bend = c->by;
    const int64_t n = sort_weights(c->at.weight, c->n, least, sorted, bend);
    int64_t zeros = 0; /* of those that are left; two make all differences */
    for (int64_t i = 0; n < c->n && i < c->n && zeros < 2; i++)
        zeros += c->at.key[i] > -INFINITY && c->at.weight[i] < least;
    const int64_t n_bend = n + zeros - 2;
    if (n_bend < 1) return;
    for (int64_t i = 0; i < zeros; i++) sorted[n + i] = 0;
    c->scan->bends(sorted, n_bend, bend);
    const double enough = p->tfs_z * c->scan->sum(bend, NULL, n_bend, c->sums);
    double sum = 0;
    int64_t kept = 0;
    for (; kept + SCAN_BLOCK <= n_bend && sum + (double)c->sums[kept / SCAN_BLOCK] <= enough; kept += SCAN_BLOCK)
        sum += (double)c->sums[kept / SCAN_BLOCK];
    while (kept < n_bend && (sum += (double)bend[kept]) <= enough) kept++;
    const int64_t stay = kept ? kept : 1;
    if (kept == n_bend) c->scan->sum(c->at.weight, NULL, c->n, c->sums);
    else if (sorted[stay - 1] > sorted[stay]) candidates_keep_weight(c, (double)sorted[stay - 1]);
    else candidates_keep_best(c, stay);
}

const sample_step smp_tail_free = {.is_on = is_on, .cut = cut};
