/* smp_mirostat.c - Mirostat 1 and 2 (Basu et al. 2021, arXiv 2007.14966): a cut that moves so that the mean surprise of
 * what is drawn comes to tau bits.
 *
 * The state is mu, the surprise that is allowed next: 2 tau at first, after each draw less by eta times what its
 * surprise exceeds tau by. 2 keeps the tokens of at most mu bits. 1 takes the probabilities for those of a Zipf law,
 * whose exponent s it fits on the best 100, and keeps as many of the best as have that mean surprise under the law. */
#include "sample/sample_step.h"

#include <math.h>

enum { FIT_TOKENS = 100 };

static bool is_on(const sample_params *p) { return p->mirostat > 0; }

/* The exponent of the law: least squares of ln(p[i] / p[i+1]) on ln((i+2) / (i+1)). */
static double fit_exponent(candidates *c)
{
    const int32_t n = candidates_list(c, FIT_TOKENS);
    double tb = 0, tt = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        const double t = log((double)(i + 2) / (double)(i + 1)), b = (double)(c->spare.key[i] - c->spare.key[i + 1]);
        tb += t * b;
        tt += t * t;
    }
    return tt > 0 ? tb / tt : 1;
}

static void cut_by_law(candidates *c, double mu)
{
    const double s = fit_exponent(c), eps = s - 1, n = c->n_vocab;
    const double over = fabs(eps) < 1e-9 ? 1 / log(n) : eps / (1 - pow(n, -eps));
    const double k = pow(over * exp2(mu), 1 / s);
    if (k < (double)c->n) candidates_keep_best(c, k > 1 ? (int64_t)k : 1); /* not for NaN */
}

static int64_t draw(candidates *c, const sample_chance *x)
{
    const sample_params *p = x->p;
    const double mu = x->in->state ? (double)x->in->state->mu : 2 * p->mirostat_tau;
    if (p->mirostat == 1) cut_by_law(c, mu);
    else candidates_keep_weight(c, c->mass * exp2(-mu));
    const int64_t at = candidates_draw(c, x->u);
    const double surprise = log2(c->mass / (double)c->at.weight[at]);
    if (x->in->next) x->in->next->mu = (float)(mu - p->mirostat_eta * (surprise - p->mirostat_tau));
    return at;
}

const sample_step smp_mirostat = {.is_on = is_on, .draw = draw};
