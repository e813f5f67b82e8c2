/* smp_fsd.c - frustratingly simple decoding (Yang et al. 2023, arXiv 2305.12675): of the k likeliest tokens the one of
 * highest (1 - alpha) p - alpha a, where a is how likely a smoothed n-gram model of prompt and output finds it. So what
 * repeats is avoided, and nothing is left to chance.
 *
 * a: for contexts of the last n - 1 … 0 tokens, if the token has followed the context c(v) of c times, add w beta c(v)
 * / (c + 1) (empty context: w c(v) / c), then w *= 1 - beta; w is 1 at first. Counts are made anew at each draw, from
 * the ids alone. Randomized: in the first fsd_steps tokens a coin chooses nucleus sampling of 0.93 instead. */
#include "sample/sample_step.h"

static bool is_on(const sample_params *p) { return p->fsd_k > 0; }

/* Of each candidate and length of context. */
typedef struct fsd_counts {
    uint32_t of[FSD_K_MAX][FSD_N_MAX], all[FSD_N_MAX];
} fsd_counts;

static int32_t id_at(const sample_input *in, int64_t i)
{
    return i < in->n_prompt ? in->prompt[i] : in->generated[i - in->n_prompt];
}

/* How many tokens before place i are those before the end, at most `most`. */
static int matching(const sample_input *in, int64_t i, int64_t end, int most)
{
    int n = 0;
    while (n < most && n < i && id_at(in, i - 1 - n) == id_at(in, end - 1 - n)) n++;
    return n;
}

/* count[id]: 1 + the candidate's number. */
static void count_all(fsd_counts *f, const sample_chance *x, int32_t n_vocab)
{
    const int64_t end = x->in->n_prompt + x->in->n_generated;
    for (int64_t i = 0; i < end; i++) {
        const int32_t id = id_at(x->in, i);
        const uint32_t which = id >= 0 && id < n_vocab ? x->count[id] : 0;
        for (int n = matching(x->in, i, end, (int)x->p->fsd_n - 1); n >= 0; n--) {
            f->all[n]++;
            if (which) f->of[which - 1][n]++;
        }
    }
}

static double penalty(const fsd_counts *f, int32_t which, const sample_params *p)
{
    double w = 1, a = 0;
    for (int n = (int)p->fsd_n - 1; n >= 0; n--) {
        const double c = f->all[n], own = f->of[which][n];
        if (own == 0) continue;
        a += n ? w * p->fsd_beta * own / (c + 1) : w * own / c;
        w *= 1 - p->fsd_beta;
    }
    return a;
}

static int64_t draw(candidates *c, const sample_chance *x)
{
    const sample_params *p = x->p;
    if (x->in->n_generated < p->fsd_steps && x->coin < 0.5) {
        candidates_keep_mass(c, c->at.key, 0.93 * c->mass);
        return candidates_draw(c, x->u);
    }
    fsd_counts f = {0};
    const int32_t n = candidates_list(c, (int32_t)p->fsd_k);
    const int32_t *id = c->spare.id;
    int32_t best = 0;
    double best_score = 0;
    for (int32_t i = 0; i < n; i++) x->count[id[i]] = (uint32_t)i + 1;
    count_all(&f, x, c->n_vocab);
    for (int32_t i = 0; i < n; i++) {
        x->count[id[i]] = 0;
        const double score = (1 - p->fsd_alpha) * (double)c->spare.weight[i] / c->mass -
                             p->fsd_alpha * penalty(&f, i, p);
        if (i && !(score > best_score)) continue;
        best = i;
        best_score = score;
    }
    int64_t at = 0;
    while (c->at.id[at] != id[best]) at++;
    return at;
}

const sample_step smp_fsd = {.is_on = is_on, .draw = draw};
