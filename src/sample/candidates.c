/* candidates.c - see candidates.h. */
#include "sample/candidates.h"

#include "base/fmath.h"

#include <math.h>

static bool before(const float *l, int32_t a, int32_t b) { return l[a] > l[b] || (l[a] == l[b] && a < b); }

static void sift_down(int32_t *heap, int32_t n, int32_t i, const float *l)
{
    int32_t id = heap[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(l, heap[child + 1], heap[child])) child++;
        if (!before(l, heap[child], id)) break;
        heap[i] = heap[child];
    }
    heap[i] = id;
}

/* The id of the i-th best token of the vocabulary. */
static int32_t candidate_at(candidates *c, int32_t i)
{
    if (c->n_sorted < 0) {
        for (int32_t k = 0; k < c->n_vocab; k++) c->heap[k] = k;
        for (int32_t k = c->n_vocab / 2; k-- > 0;) sift_down(c->heap, c->n_vocab, k, c->logit);
        c->n_sorted = 0;
    }
    while (c->n_sorted <= i) { /* the best of what is left of the heap moves to its end */
        int32_t last = c->n_vocab - ++c->n_sorted, best = c->heap[0];
        c->heap[0] = c->heap[last];
        sift_down(c->heap, last, 0, c->logit);
        c->heap[last] = best;
    }
    return c->heap[c->n_vocab - 1 - i];
}

/* The probability of a token, by id, relative to that of the best. */
static double candidate_weight(const candidates *c, int32_t id)
{
    return fm_exp((float)(((double)c->logit[id] - c->best) / c->temperature));
}

/* Tokens of no weight are not drawn. */
static double settle(candidates *c)
{
    double sum = 0, w;
    int32_t i = c->begin;
    for (; i < c->end && (i == c->begin || sum < c->mass_max); i++, sum += w) {
        w = candidate_weight(c, candidate_at(c, i));
        if (i > c->begin && (w == 0 || w < c->weight_min)) break;
    }
    c->end = i;
    c->mass_max = INFINITY;
    c->weight_min = 0;
    return sum;
}

double candidates_mass(candidates *c)
{
    if (c->end - c->begin < c->n_vocab || c->mass_max < INFINITY || c->weight_min > 0) return settle(c);
    double mass = 0;
    for (int32_t i = 0; i < c->n_vocab; i++) mass += candidate_weight(c, i);
    return mass;
}

int32_t candidates_draw(candidates *c, double u)
{
    double sum = settle(c), at = 0;
    for (int32_t i = c->begin; i < c->end; i++)
        if ((at += candidate_weight(c, candidate_at(c, i))) > u * sum) return candidate_at(c, i);
    return candidate_at(c, c->begin);
}

int32_t candidates_draw_by_id(candidates *c, double u)
{
    double total = candidates_mass(c), sum = 0;
    int32_t best = 0;
    for (int32_t i = 0; i < c->n_vocab; i++) {
        double w = candidate_weight(c, i);
        if (w > 0 && (sum += w) > u * total) return i;
        if (c->logit[i] > c->logit[best]) best = i;
    }
    return best;
}
