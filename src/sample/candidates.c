/* candidates.c - see candidates.h. */
#include "sample/candidates.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

enum { FEW = 256 }; /* tokens that are sorted */

/* Where a cut lies: all keys above `key` are kept, and of those that equal it ids up to last_id. */
typedef struct cut_place {
    float key;
    int32_t last_id;
    bool ties; /* some that equal it are not kept */
    int64_t stay;
} cut_place;

/* What is enough. */
typedef struct cut_goal {
    bool counts; /* so many tokens; else so much mass */
    double enough;
} cut_goal;

void candidates_weigh(candidates *c, float best, double temperature)
{
    const double scale = 1 / temperature;
    c->mass = c->scan->weigh(c->at.key, c->n, best, (float)(scale < 1e30 ? scale : 1e30), c->at.weight, c->sums);
}

/* Greatest key first, of equal ones the lowest id (Shell's sort). */
static void sort_columns(scan_columns *c, int64_t n)
{
    int64_t gap = 1;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t i = gap; i < n; i++) {
            const float key = c->key[i], weight = c->weight[i];
            const int32_t id = c->id[i];
            int64_t k = i;
            for (; k >= gap; k -= gap) {
                const float other = c->key[k - gap];
                if (other > key || (other == key && c->id[k - gap] < id)) break;
                c->key[k] = other;
                c->weight[k] = c->weight[k - gap];
                c->id[k] = c->id[k - gap];
            }
            c->key[k] = key;
            c->weight[k] = weight;
            c->id[k] = id;
        }
}

/* Where a cut lies: at a key from `low` on and below `high`. */
typedef struct cut_range {
    scan_columns at;          /* with those in the range, and perhaps others */
    int64_t n, n_low, n_high; /* of the columns: all, from `low` on, from `high` on */
    int64_t ahead, n_gone;    /* tokens from `high` on; of these those that are not in the columns */
    float low, high;
    double above, gone; /* what there is, in tokens or mass: from `high` on; of that, what is not in the columns */
} cut_range;

/* Eight levels inside the range, falling; without a lower end ever farther below 0. False: there is
 * nothing between its ends. */
static bool choose_levels(const cut_range *r, float *reach, float level[SCAN_LEVELS])
{
    if (r->low == -INFINITY) {
        for (int k = 0; k < SCAN_LEVELS; k++, *reach *= 2) level[k] = -*reach;
        return level[SCAN_LEVELS - 1] > -1e30f;
    }
    const float high = fminf(r->high, FLT_MIN); /* keys are at most 0 */
    const float least = nextafterf(r->low, INFINITY), most = nextafterf(high, -INFINITY);
    for (int k = 0; k < SCAN_LEVELS; k++)
        level[k] = fmaxf(fminf(high - (high - r->low) / (SCAN_LEVELS + 1) * (float)(k + 1), most), least);
    return least <= most;
}

/* Leaves only those in the range in the columns. */
static void gather_candidates(candidates *c, cut_range *r)
{
    r->n = c->scan->keep(r->at.key, r->n, r->low, r->high, &r->at, &c->spare);
    r->at = c->spare;
    r->n_low = r->n;
    r->n_high = 0;
    r->gone = r->above;
    r->n_gone = r->ahead;
}

/* Narrows the range until few are left in it, or all keys there are equal. False: all are needed. */
static bool narrow_range(candidates *c, const float *by, const cut_goal *g, cut_range *r)
{
    float level[SCAN_LEVELS], reach = 0.25f;
    *r = (cut_range){.at = {(float *)by, c->at.weight, c->at.id}, .n = c->n, .low = -INFINITY, .high = INFINITY};
    while (r->low == -INFINITY || r->n_low - r->n_high > FEW) {
        if (!choose_levels(r, &reach, level)) return r->low > -INFINITY;
        double mass[SCAN_LEVELS], got[SCAN_LEVELS];
        int64_t count[SCAN_LEVELS];
        c->scan->above(r->at.key, r->at.weight, r->n, level, mass, count);
        int k = 0;
        for (; k < SCAN_LEVELS; k++) {
            got[k] = r->gone + (g->counts ? (double)count[k] : mass[k]);
            if (got[k] >= g->enough) break;
        }
        if (k == SCAN_LEVELS && r->low == -INFINITY) continue;
        if (k < SCAN_LEVELS) {
            r->low = level[k];
            r->n_low = count[k];
        }
        if (k > 0) {
            r->high = level[k - 1];
            r->above = got[k - 1];
            r->n_high = count[k - 1];
            r->ahead = r->n_gone + count[k - 1];
        }
        if (r->n_low - r->n_high <= r->n / 4) gather_candidates(c, r); /* else another look at all costs less */
    }
    return true;
}

/* Sorts what is left in the range, and finds the place. */
static cut_place place_of(candidates *c, const cut_goal *g, cut_range *r)
{
    double got = r->above;
    gather_candidates(c, r);
    if (r->n <= FEW) sort_columns(&r->at, r->n); /* else all keys are equal */
    if (!r->n)
        return (cut_place){r->high, INT32_MAX, false, r->ahead}; /* sums of parts round in another way than their sum */
    int64_t i = 0;
    for (; i < r->n; i++)
        if ((got += g->counts ? 1 : (double)r->at.weight[i]) >= g->enough) break;
    if (i == r->n) i--;
    return (cut_place){r->at.key[i], r->at.id[i], i + 1 < r->n && r->at.key[i + 1] == r->at.key[i], r->ahead + i + 1};
}

/* Where many stay, it is cheaper to leave them in their places. */
static void keep_from(candidates *c, const float *by, float low, int64_t stay)
{
    if (stay > c->n / 8) {
        c->mass = c->scan->erase(by, c->n, low, c->at.key, c->at.weight, c->sums);
        return;
    }
    c->n = c->scan->keep(by, c->n, low, INFINITY, &c->at, &c->own);
    c->at = c->own;
    c->mass = c->scan->sum(c->at.weight, NULL, c->n, c->sums);
}

static void keep_goal(candidates *c, float *by, const cut_goal *g)
{
    cut_range r;
    if (!narrow_range(c, by, g, &r)) return;
    const cut_place p = place_of(c, g, &r);
    for (int64_t i = 0; p.ties && i < c->n; i++)
        if (by[i] == p.key && c->at.id[i] > p.last_id) by[i] = -INFINITY;
    keep_from(c, by, p.key, p.stay);
}

void candidates_keep_best(candidates *c, int64_t k)
{
    const cut_goal g = {true, (double)k};
    if (k < c->n) keep_goal(c, c->at.key, &g);
}

void candidates_keep_mass(candidates *c, float *by, double mass)
{
    const cut_goal g = {false, mass > 0 ? mass : DBL_TRUE_MIN}; /* one token is left at least */
    keep_goal(c, by, &g);
}

void candidates_keep_weight(candidates *c, double least)
{
    const float best = c->scan->best(c->at.weight, c->n).value;
    if (least > (double)best) candidates_keep_best(c, 1);
    else c->mass = c->scan->erase(c->at.weight, c->n, (float)least, c->at.key, c->at.weight, c->sums);
}

int32_t candidates_list(candidates *c, int32_t k)
{
    const cut_goal g = {true, (double)k};
    cut_range r = {.low = -INFINITY};
    const bool some = k < c->n && narrow_range(c, c->at.key, &g, &r);
    const int64_t n = c->scan->keep(c->at.key, c->n, some ? r.low : -FLT_MAX, INFINITY, &c->at, &c->spare);
    sort_columns(&c->spare, n);
    return (int32_t)(n < k ? n : k);
}

int64_t candidates_draw(const candidates *c, double u)
{
    const double goal = u * c->mass;
    double before = 0, sum = 0;
    int64_t begin = 0, last = 0; /* of the block where it lies, or, by rounding, of the last one with any weight */
    for (int64_t b = 0; b < c->n && sum <= goal; b += SCAN_BLOCK) {
        const double block = (double)c->sums[b / SCAN_BLOCK];
        if (!(block > 0)) continue;
        begin = b;
        before = sum;
        sum += block;
    }
    for (int64_t i = begin; i < c->n && i < begin + SCAN_BLOCK; i++) {
        if (!(c->at.weight[i] > 0)) continue;
        last = i;
        if ((before += (double)c->at.weight[i]) > goal) break;
    }
    return last;
}
