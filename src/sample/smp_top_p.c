/* smp_top_p.c - nucleus sampling (Holtzman et al. 2019, arXiv 1904.09751): the fewest likeliest tokens whose
 * probabilities sum to p, of the mass that is left. */
#include "sample/sample_step.h"

static bool cut(candidates *c, const sample_params *p)
{
    if (p->top_p >= 1) return false;
    c->mass_max = p->top_p * candidates_mass(c);
    return true;
}

const sample_step smp_top_p = {.cut = cut};
