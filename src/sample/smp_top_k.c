/* smp_top_k.c - the k likeliest tokens (Fan, Lewis, Dauphin 2018, arXiv 1805.04833). */
#include "sample/sample_step.h"

static bool cut(candidates *c, const sample_params *p)
{
    if (p->top_k <= 0 || p->top_k >= c->n_vocab) return false;
    if (c->end - c->begin > p->top_k) c->end = c->begin + (int32_t)p->top_k;
    return true;
}

const sample_step smp_top_k = {.cut = cut};
