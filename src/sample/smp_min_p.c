/* smp_min_p.c - the tokens at least p times as likely as the likeliest (Nguyen et al. 2024, arXiv 2407.01082). */
#include "sample/sample_step.h"

static bool cut(candidates *c, const sample_params *p)
{
    if (p->min_p > c->weight_min) c->weight_min = p->min_p;
    return p->min_p > 0;
}

const sample_step smp_min_p = {.cut = cut};
