/* sample.c - see sample.h: the samplers of the list in their order, then one draw. */
#include "sample/sample_step.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

struct sampler {
    int32_t n_vocab;
    const scan_ops *scan;
    scan_columns own, spare; /* [scan_room(n_vocab)] of candidates, as all below */
    float *by, *sums;
    int32_t *ids;    /* 0, 1, 2, … */
    uint32_t *count; /* zero between steps */
};

#define X(kind, name, otherwise, low, high, shown, doc, alias, few)                                                    \
    {#name, PARAM_##kind, offsetof(sample_params, name), otherwise, low, high, shown, doc, alias, .rare = few},
const param sample_param_rows[] = {SAMPLE_PARAM_LIST(X)};
#undef X
const size_t sample_param_count = sizeof sample_param_rows / sizeof *sample_param_rows;

void sample_note_source(const char *source[SAMPLE_PARAM_N], const char *name, const sample_params *before,
                        const sample_params *now)
{
#define X(kind, field, ...) before->field != now->field,
    const bool changed[] = {SAMPLE_PARAM_LIST(X)};
#undef X
    for (int i = 0; i < SAMPLE_PARAM_N; i++)
        if (changed[i]) source[i] = name;
}

bool sample_for_conversation(sample_params *p)
{
    sample_params plain;
    param_defaults(sample_param_rows, sample_param_count, &plain);
#define X(kind, name, ...)                                                                                             \
    if (strcmp(#name, "seed") != 0 && p->name != plain.name) return false;
    SAMPLE_PARAM_LIST(X)
#undef X
    p->temperature = 0.8;
    p->top_k = 40;
    p->top_p = 0.95;
    p->min_p = 0.05;
    return true;
}

void sample_seed_draw(sample_params *p)
{
    if (p->seed == -1 && getrandom(&p->seed, sizeof p->seed, 0) > 0) p->seed &= INT32_MAX;
}

#define X(name) extern const sample_step smp_##name;
SAMPLER_LIST(X)
#undef X
#define X(name) &smp_##name,
const sample_step *const sample_steps[] = {SAMPLER_LIST(X)};
#undef X
const int sample_step_count = sizeof sample_steps / sizeof *sample_steps;

int sampler_open(sampler **out, int32_t n_vocab, const scan_ops *scan, err *e)
{
    *out = NULL;
    if (n_vocab <= 0) return err_set(e, ERR_SPEC, "a vocabulary of %d tokens cannot be sampled from", n_vocab);
    sampler *s = mem_zero(1, sizeof *s);
    const size_t n = (size_t)scan_room(n_vocab);
    bool ok = s != NULL;
    if (s) {
        void **columns[] = {(void **)&s->own.key,   (void **)&s->own.weight,   (void **)&s->own.id,
                            (void **)&s->spare.key, (void **)&s->spare.weight, (void **)&s->spare.id,
                            (void **)&s->by,        (void **)&s->sums,         (void **)&s->ids,
                            (void **)&s->count};
        s->n_vocab = n_vocab;
        s->scan = scan;
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) ok = (*columns[i] = mem_zero(n, 4)) && ok;
    }
    if (!ok) {
        sampler_close(s);
        return err_set(e, ERR_MEMORY, "out of memory for sampling from %d tokens", n_vocab);
    }
    for (int32_t i = 0; i < n_vocab; i++) s->ids[i] = i;
    *out = s;
    return OK;
}

void sampler_close(sampler *s)
{
    if (!s) return;
    mem_free(s->own.key);
    mem_free(s->own.weight);
    mem_free(s->own.id);
    mem_free(s->spare.key);
    mem_free(s->spare.weight);
    mem_free(s->spare.id);
    mem_free(s->by);
    mem_free(s->sums);
    mem_free(s->ids);
    mem_free(s->count);
    mem_free(s);
}

/* All tokens, with the logits as keys; *best: the greatest. */
static candidates all_of(sampler *s, const float *logits, int32_t n, float *best)
{
    *best = s->scan->take(logits, n, s->own.key);
    return (candidates){.scan = s->scan,
                        .at = {s->own.key, s->own.weight, s->ids},
                        .n = n,
                        .sums = s->sums,
                        .own = s->own,
                        .spare = s->spare,
                        .by = s->by,
                        .n_vocab = n};
}

/* Whether the best logits alone give the bits of a row that was cut to them: whether that cut would leave them and
 * nothing else, which it does not where keys are as far apart as no level of its search reaches. */
static bool suffices(const sample_params *p, const sample_input *in, float *best)
{
    float least = INFINITY, most = -INFINITY;
    for (int32_t i = 0; i < in->n_best; i++) {
        least = fminf(least, in->best[i].value);
        most = fmaxf(most, in->best[i].value);
    }
    *best = most;
    return isfinite(most) && ((double)least - (double)most) / p->temperature > -1e27;
}

/* Those of a step that brought only the best logits: these, or where they do not suffice all tokens, of which the
 * others weigh nothing. */
static candidates best_of(sampler *s, const sample_params *p, const sample_input *in, float *best)
{
    candidates c = {.scan = s->scan,
                    .at = s->own,
                    .n = in->n_best,
                    .sums = s->sums,
                    .own = s->own,
                    .spare = s->spare,
                    .by = s->by,
                    .n_vocab = in->n_vocab};
    if (suffices(p, in, best)) {
        for (int32_t i = 0; i < in->n_best; i++) {
            s->by[i] = in->best[i].value;
            s->own.id[i] = in->best[i].id;
        }
        s->scan->take(s->by, in->n_best, s->own.key);
        return c;
    }
    for (int32_t i = 0; i < in->n_vocab; i++) s->by[i] = -INFINITY;
    for (int32_t i = 0; i < in->n_best; i++)
        if (in->best[i].id >= 0) s->by[in->best[i].id] = in->best[i].value;
    return all_of(s, s->by, in->n_vocab, best);
}

/* Bias counts after the penalties; what is banned or not allowed stays so. False: nothing was to be done. */
static bool adjust(sampler *s, float *logit, const sample_params *p, const sample_input *in)
{
    const sample_logits l = {logit, in->n_vocab, s->count, in};
    bool adjusts = false;
    for (int k = 0; k < sample_step_count; k++) {
        if (!sample_steps[k]->adjust || !sample_steps[k]->is_on(p)) continue;
        sample_steps[k]->adjust(&l, p);
        adjusts = true;
    }
    for (int32_t i = 0; i < in->n_bias; i++)
        if (sample_in_vocab(&l, in->bias[i].id)) logit[in->bias[i].id] += in->bias[i].bias;
    for (int32_t i = 0; i < in->n_banned; i++)
        if (sample_in_vocab(&l, in->banned[i])) logit[in->banned[i]] = -INFINITY;
    if (in->allowed) s->scan->mask(in->allowed, in->n_vocab, logit);
    return adjusts || in->n_bias || in->n_banned || in->allowed;
}

/* The cut by top-k comes before others. Of a small vocabulary it would leave the rest where it is
 * (candidates.c: keep_from), and sums would have another order than those of a list. */
int32_t sampler_reads(const sample_params *p, int32_t n_vocab)
{
    bool adjusts = false;
    for (int k = 0; k < sample_step_count; k++)
        adjusts = adjusts || (sample_steps[k]->adjust && sample_steps[k]->is_on(p));
    if (adjusts) return 0;
    if (p->temperature <= 0) return 1;
    return p->top_k > 1 && p->top_k <= BEST_MAX && p->top_k <= n_vocab / 8 ? (int32_t)p->top_k : 0;
}

bool sampler_has_state(const sample_params *p) { return p->mirostat > 0 && p->temperature > 0; }

/* Other random numbers of the same position. */
typedef enum { COIN_STEP, COIN_ACCEPT, COIN_REST } coin;
static double coin_of(const sample_params *p, uint64_t position, coin which)
{
    return rng_uniform((uint64_t)p->seed, ~(uint64_t)p->choice - ((uint64_t)which << 32), position);
}

static uint64_t position_of(const sample_input *in) { return (uint64_t)(in->n_prompt + in->n_generated); }

/* A draw after the cuts. */
typedef struct picking {
    candidates c;
    sample_chance x;
    const sample_step *draws; /* a step that draws; NULL: candidates_draw does */
    int32_t decided;          /* without a draw */
} picking;

/* False: the token is decided. */
static bool open_draw(sampler *s, const sample_params *p, const sample_input *in, picking *k)
{
    float best;
    const bool lists = in->best != NULL, greedy = p->temperature <= 0;
    *k = (picking){.decided = -1};
    k->c = lists ? best_of(s, p, in, &best) : all_of(s, in->logits, in->n_vocab, &best);
    const bool changed = !lists && adjust(s, k->c.at.key, p, in);
    if (changed || greedy || !isfinite(best)) {
        const best_logit top = s->scan->best(k->c.at.key, k->c.n);
        best = top.value;
        if (best == -INFINITY) return false;
        k->decided = top.id;
        if (greedy || best == INFINITY) return false;
    }
    const uint64_t position = position_of(in);
    k->x = (sample_chance){.p = p,
                           .in = in,
                           .u = rng_uniform((uint64_t)p->seed, (uint64_t)p->choice, position),
                           .coin = coin_of(p, position, COIN_STEP),
                           .count = s->count};
    candidates_weigh(&k->c, best, p->temperature);
    for (int i = 0; i < sample_step_count && !k->draws; i++) {
        const sample_step *step = sample_steps[i];
        if (step->adjust || !step->is_on(p)) continue;
        if (step->cut) step->cut(&k->c, p);
        else k->draws = step;
    }
    return true;
}

static int32_t draw_one(picking *k)
{
    const int64_t at = k->draws ? k->draws->draw(&k->c, &k->x) : candidates_draw(&k->c, k->x.u); /* it may cut */
    return k->c.at.id[at];
}

int32_t sampler_pick(sampler *s, const sample_params *p, const sample_input *in)
{
    picking k;
    return open_draw(s, p, in, &k) ? draw_one(&k) : k.decided;
}

/* ---- guesses */

static void guess_for_certain(guess_chances *q, int32_t id) { *q = (guess_chances){.n = 1, .id = {id}, .p = {1}}; }

int32_t sampler_guess(sampler *s, const sample_params *p, const sample_input *in, guess_chances *q)
{
    picking k;
    if (!open_draw(s, p, in, &k) || k.draws) {
        const int32_t id = k.draws ? draw_one(&k) : k.decided;
        guess_for_certain(q, id);
        return id;
    }
    double mass = 0, sum = 0;
    q->n = candidates_list(&k.c, GUESS_CHANCES);
    for (int32_t i = 0; i < q->n; i++) mass += (double)k.c.spare.weight[i];
    int32_t drawn = 0;
    for (int32_t i = 0; i < q->n; i++) {
        q->id[i] = k.c.spare.id[i];
        q->p[i] = (float)((double)k.c.spare.weight[i] / mass);
        if (sum <= k.x.u && q->p[i] > 0) drawn = i;
        sum += (double)q->p[i];
    }
    return q->id[drawn];
}

/* The place of a token among the candidates, which are in order of id; -1: it is not among them. */
static int64_t place_of(const candidates *c, int32_t id)
{
    int64_t low = 0, high = c->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (c->at.id[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < c->n && c->at.id[low] == id ? low : -1;
}

/* A draw of what the chances of the guess leave of those of the tokens: max(0, p - q), over its sum. */
static int32_t draw_rest(candidates *c, const guess_chances *q, double u)
{
    const double mass = c->mass;
    for (int32_t i = 0; i < q->n; i++) {
        const int64_t at = place_of(c, q->id[i]);
        if (at < 0) continue;
        const double rest = (double)c->at.weight[at] - (double)q->p[i] * mass;
        c->at.weight[at] = rest > 0 ? (float)rest : 0;
    }
    c->mass = c->scan->sum(c->at.weight, NULL, c->n, c->sums);
    return c->mass > 0 ? c->at.id[candidates_draw(c, u)] : -1;
}

int32_t sampler_judge(sampler *s, const sample_params *p, const sample_input *in, guess_rule rule, int32_t guess,
                      const guess_chances *q)
{
    picking k;
    guess_chances certain;
    if (!open_draw(s, p, in, &k)) return k.decided;
    if (k.draws || rule == GUESS_SAME) return draw_one(&k);
    const int64_t found = place_of(&k.c, guess), at = found >= 0 && k.c.at.weight[found] > 0 ? found : -1;
    if (rule == GUESS_POOL) return at >= 0 ? guess : draw_one(&k);
    if (!q) guess_for_certain(&certain, guess), q = &certain;
    double chance = 0;
    for (int32_t i = 0; i < q->n; i++) chance = q->id[i] == guess ? (double)q->p[i] : chance;
    const uint64_t position = position_of(in);
    const double own = at >= 0 ? (double)k.c.at.weight[at] / k.c.mass : 0;
    if (coin_of(p, position, COIN_ACCEPT) * chance < own) return guess;
    const int32_t id = draw_rest(&k.c, q, coin_of(p, position, COIN_REST));
    return id >= 0 ? id : guess;
}

float sampler_logprobs(sampler *s, const float *logits, int32_t n_vocab, int32_t id, top_logprob *best, int32_t n)
{
    if (n_vocab > s->n_vocab) n_vocab = s->n_vocab;
    float top;
    candidates c = all_of(s, logits, n_vocab, &top);
    candidates_weigh(&c, isfinite(top) ? top : 0, 1);
    const float norm = (float)((double)top + log(c.mass));
    const int32_t held = n > 0 ? candidates_list(&c, n) : 0;
    for (int32_t i = 0; i < held; i++) best[i] = (top_logprob){s->spare.id[i], logits[s->spare.id[i]] - norm};
    for (int32_t i = 0, k = held; i < n_vocab && k < n; i++) /* there are too few that are finite */
        if (!(c.at.key[i] >= -FLT_MAX)) best[k++] = (top_logprob){i, -INFINITY};
    return id >= 0 && id < n_vocab ? logits[id] - norm : -INFINITY;
}
