/* smp_typical.c - locally typical sampling (Meister et al. 2022, arXiv 2202.00666): of the tokens whose surprise -ln p
 * is nearest to the entropy H of all, the fewest whose probabilities sum to typical_p.
 *
 * With keys k = ln w and the sum S of weights, -ln p = ln S - k and H = ln S - sum(w k) / S: their distance is that of
 * k from the mean of keys, and no logarithm is needed. */
#include "sample/sample_step.h"

static bool is_on(const sample_params *p) { return p->typical_p < 1; }

static void cut(candidates *c, const sample_params *p)
{
    const float mean = (float)(c->scan->sum(c->at.weight, c->at.key, c->n, c->by) / c->mass);
    c->scan->distance(c->at.key, c->n, mean, c->by);
    candidates_keep_mass(c, c->by, p->typical_p * c->mass);
}

const sample_step smp_typical = {.is_on = is_on, .cut = cut};
