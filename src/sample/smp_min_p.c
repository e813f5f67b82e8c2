/* smp_min_p.c - the tokens at least p times as likely as the likeliest (Nguyen et al. 2024, arXiv 2407.01082). */
#include "sample/sample_step.h"

static bool is_on(const sample_params *p) { return p->min_p > 0; }

static void cut(candidates *c, const sample_params *p)
{
    candidates_keep_weight(c, p->min_p * (double)c->scan->best(c->at.weight, c->n).value);
}

const sample_step smp_min_p = {.is_on = is_on, .cut = cut};
