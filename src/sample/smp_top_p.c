/* smp_top_p.c - nucleus sampling (Holtzman et al. 2019, arXiv 1904.09751): the fewest likeliest tokens whose
 * probabilities sum to p, of the mass that is left. */
#include "sample/sample_step.h"

static bool is_on(const sample_params *p) { return p->top_p < 1; }

static void cut(candidates *c, const sample_params *p) { candidates_keep_mass(c, c->at.key, p->top_p * c->mass); }

const sample_step smp_top_p = {.is_on = is_on, .cut = cut};
