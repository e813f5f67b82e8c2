/* route_pick.h - the definition of ROUTE: which experts a token row goes to, and with which weights.
 *
 * Top-k routing (Shazeer et al. 2017, arXiv 1701.06538) in these forms: softmax before or after picking; sigmoid with
 * a bias that affects the pick but not the weight, and groups of experts (DeepSeek-V2 and V3, arXiv 2405.04434,
 * 2412.19437); SparseMixer-v2 (arXiv 2409.12136). Sums run over ascending ids, or ranks; of equal scores the lowest id
 * is taken, and NaN is never better than anything. Plain C, compiled for every instruction set: exp is a polynomial of
 * fused multiply-adds, which are slow function calls otherwise. */
#pragma once
#include "base/fmath.h"
#include "core/op.h"

typedef struct route_row {
    const float *logits;
    int32_t n;
    float score[EXPERTS_MAX], choice[EXPERTS_MAX]; /* for the weights; for the pick */
    float worth[EXPERTS_MAX];                      /* of groups */
    int32_t id[EXPERTS_MAX];                       /* of those picked */
    bool gone[EXPERTS_MAX], taken[EXPERTS_MAX];    /* experts; groups */
} route_row;

/* The best of [from, to) that is not gone; at least one is not. */
static inline int32_t route_best(const float *x, const bool *gone, int32_t from, int32_t to)
{
    int32_t best = -1;
    for (int32_t i = from; i < to; i++)
        if (!gone[i] && (best < 0 || x[i] > x[best] || (x[best] != x[best] && x[i] == x[i]))) best = i;
    return best;
}

static inline void route_score(route_row *w, int score)
{
    float most = w->logits[0], sum = 0;
    for (int32_t i = 0; i < w->n; i++) most = fm_max(w->logits[i], most);
    for (int32_t i = 0; i < w->n; i++) {
        float x = w->logits[i];
        w->score[i] = score == SCORE_SOFTMAX ? fm_exp(x - most) : score == SCORE_SIGMOID ? fm_sigmoid(x) : x;
        sum += w->score[i];
    }
    for (int32_t i = 0; i < w->n && score == SCORE_SOFTMAX; i++) w->score[i] = w->score[i] / sum;
}

/* Marks the experts of all but the best groups as gone. */
static inline void route_limit(const op *o, route_row *w)
{
    float *worth = w->worth;
    bool *taken = w->taken;
    int32_t groups = o->u.route.groups, size = w->n / groups;
    for (int32_t g = 0; g < groups; g++) {
        taken[g] = false;
        int32_t first = route_best(w->choice, w->gone, g * size, (g + 1) * size);
        worth[g] = w->choice[first];
        if (o->u.route.group_best == 1) continue;
        w->gone[first] = true;
        worth[g] += w->choice[route_best(w->choice, w->gone, g * size, (g + 1) * size)];
        w->gone[first] = false;
    }
    for (int32_t k = 0; k < o->u.route.groups_used; k++) taken[route_best(worth, taken, 0, groups)] = true;
    for (int32_t i = 0; i < w->n; i++) w->gone[i] = !taken[i / size];
}

/* Its weight among the remaining experts near it. */
static inline float route_mix(const route_row *w, int32_t best, float near)
{
    float most = w->choice[best], sum = 0;
    for (int32_t i = 0; i < w->n; i++) {
        float x = w->choice[i], size = fm_max(most, fabsf(x));
        if (!w->gone[i] && !((most - x) / size > near)) sum += fm_exp(x - most);
    }
    return 1.0f / sum;
}

/* bias, scale: [n] or NULL. */
static inline void route_pick(const op *o, route_row *w, const float *bias, const float *scale, float *out)
{
    int32_t used = o->u.route.used, *id = w->id;
    float *share = out + used, sum = 0, most = 0;
    int score = o->u.route.score;
    route_score(w, score);
    for (int32_t i = 0; i < w->n; i++) {
        w->choice[i] = bias ? w->score[i] + bias[i] : w->score[i];
        w->gone[i] = false;
    }
    if (o->u.route.groups) route_limit(o, w);
    for (int32_t k = 0; k < used; k++) {
        id[k] = route_best(w->choice, w->gone, 0, w->n);
        out[k] = (float)id[k];
        share[k] = score == SCORE_MIXER ? route_mix(w, id[k], o->u.route.near) : w->score[id[k]];
        w->gone[id[k]] = true;
    }
    for (int32_t k = 0; k < used && score == SCORE_PICKED; k++) most = k ? fm_max(share[k], most) : share[k];
    for (int32_t k = 0; k < used; k++) {
        if (score == SCORE_PICKED) share[k] = fm_exp(share[k] - most);
        sum += share[k];
    }
    bool divide = o->u.route.renorm || score == SCORE_PICKED;
    for (int32_t k = 0; k < used; k++) {
        if (divide) share[k] = share[k] / (sum + 1e-20f);
        share[k] *= o->u.route.factor;
        if (scale) share[k] *= scale[id[k]];
    }
}
