/* smp_top_k.c - the k likeliest tokens (Fan, Lewis, Dauphin 2018, arXiv 1805.04833). */
#include "sample/sample_step.h"

static bool is_on(const sample_params *p) { return p->top_k > 0; }

static void cut(candidates *c, const sample_params *p) { candidates_keep_best(c, p->top_k); }

const sample_step smp_top_k = {.is_on = is_on, .cut = cut};
