/* smp_tail_free.c - tail-free sampling (Phénix and Egan 2019, trentbrick.github.io/Tail-Free-Sampling): of the sorted
 * probabilities the absolute second differences, normalised; tokens are kept while their sum is at most z.
 *
 * Weights below 2^-24 of the best count as 0: all differences among them together are below the rounding of the first
 * one. The others are sorted by their bits, a third of them at a time. */
#include "sample/sample_step.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { PASSES = 3, DIGITS = 1 << 10 };

static bool is_on(const sample_params *p) { return p->tfs_z < 1; }

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* n floats from `least` to `most`, which is at most 2^24 times as much, greatest first. Both columns have room for
 * them; returns the one where they lie. */
static float *sort_weights(float *x, float *y, int64_t n, float least, float most)
{
    const uint32_t zero = bits_of(least), range = bits_of(most) - zero;
    int shift = 1;
    while (range >> PASSES * shift) shift++;
    const uint32_t mask = (1u << shift) - 1;
    uint32_t at[PASSES][DIGITS] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < PASSES; p++) at[p][(bits_of(x[i]) - zero) >> p * shift & mask]++;
    for (int p = 0; p < PASSES; p++) {
        uint32_t sum = 0;
        for (uint32_t d = mask + 1; d-- > 0;) {
            const uint32_t count = at[p][d];
            at[p][d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) y[at[p][(bits_of(x[i]) - zero) >> p * shift & mask]++] = x[i];
        float *other = x;
        x = y;
        y = other;
    }
    return x;
}

static void cut(candidates *c, const sample_params *p)
{
    const float most = c->scan->best(c->at.weight, c->n).value, least = 0x1p-24f * most;
    const int64_t n = c->scan->keep(c->at.weight, c->n, least, INFINITY, &c->at, &c->spare);
    int64_t zeros = 0; /* of those that are left; two make all differences */
    for (int64_t i = 0; i < c->n && zeros < 2; i++) zeros += c->at.key[i] > -INFINITY && c->at.weight[i] < least;
    const int64_t n_bend = n + zeros - 2;
    if (n_bend < 1) return;
    float *sorted = sort_weights(c->spare.weight, c->spare.key, n, least, most), *bend = c->by;
    for (int64_t i = 0; i < zeros; i++) sorted[n + i] = 0;
    c->scan->bends(sorted, n_bend, bend);
    const double enough = p->tfs_z * c->scan->sum(bend, NULL, n_bend, c->sums);
    double sum = 0;
    int64_t kept = 0;
    for (; kept + SCAN_BLOCK <= n_bend && sum + (double)c->sums[kept / SCAN_BLOCK] <= enough; kept += SCAN_BLOCK)
        sum += (double)c->sums[kept / SCAN_BLOCK];
    while (kept < n_bend && (sum += (double)bend[kept]) <= enough) kept++;
    if (kept < n_bend) candidates_keep_best(c, kept ? kept : 1);
    else c->scan->sum(c->at.weight, NULL, c->n, c->sums);
}

const sample_step smp_tail_free = {.is_on = is_on, .cut = cut};
