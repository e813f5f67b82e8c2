/* sample.c - see sample.h: the samplers of the list in their order, then one draw. */
#include "sample/sample_step.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/best_logit.h"

#include <math.h>

struct sampler {
    int32_t n_vocab;
    float *logit;    /* [n_vocab] adjusted */
    int32_t *heap;   /* [n_vocab] of candidates */
    uint32_t *count; /* [n_vocab] zero between steps */
};

#define X(kind, name, otherwise, low, high, shown, doc, alias)                                                         \
    {#name, PARAM_##kind, offsetof(sample_params, name), otherwise, low, high, shown, doc, alias},
const param sample_param_rows[] = {SAMPLE_PARAM_LIST(X)};
#undef X
const size_t sample_param_count = sizeof sample_param_rows / sizeof *sample_param_rows;

#define X(name) extern const sample_step smp_##name;
SAMPLER_LIST(X)
#undef X
#define X(name) &smp_##name,
const sample_step *const sample_steps[] = {SAMPLER_LIST(X)};
#undef X
const int sample_step_count = sizeof sample_steps / sizeof *sample_steps;

int sampler_open(sampler **out, int32_t n_vocab, err *e)
{
    *out = NULL;
    if (n_vocab <= 0) return err_set(e, ERR_SPEC, "a vocabulary of %d tokens cannot be sampled from", n_vocab);
    sampler *s = mem_zero(1, sizeof *s);
    size_t n = (size_t)n_vocab;
    if (s) {
        s->n_vocab = n_vocab;
        s->logit = mem_array(n, sizeof *s->logit);
        s->heap = mem_array(n, sizeof *s->heap);
        s->count = mem_zero(n, sizeof *s->count);
    }
    if (!s || !s->logit || !s->heap || !s->count) {
        sampler_close(s);
        return err_set(e, ERR_MEMORY, "out of memory for sampling from %d tokens", n_vocab);
    }
    *out = s;
    return OK;
}

void sampler_close(sampler *s)
{
    if (!s) return;
    mem_free(s->logit);
    mem_free(s->heap);
    mem_free(s->count);
    mem_free(s);
}

/* Bias counts after the penalties; what is banned or not allowed stays so. */
static void adjust(sampler *s, const sample_params *p, const sample_input *in)
{
    const sample_logits l = {s->logit, s->n_vocab, s->count, in};
    for (int32_t i = 0; i < s->n_vocab; i++)
        s->logit[i] = i < in->n_vocab && !isnan(in->logits[i]) ? in->logits[i] : -INFINITY;
    for (int k = 0; k < sample_step_count; k++)
        if (sample_steps[k]->adjust && sample_steps[k]->adjusts(p)) sample_steps[k]->adjust(&l, p);
    for (int32_t i = 0; i < in->n_bias; i++)
        if (sample_in_vocab(&l, in->bias[i].id)) s->logit[in->bias[i].id] += in->bias[i].bias;
    for (int32_t i = 0; i < in->n_banned; i++)
        if (sample_in_vocab(&l, in->banned[i])) s->logit[in->banned[i]] = -INFINITY;
    for (int32_t i = 0; in->allowed && i < s->n_vocab; i++)
        if (!(in->allowed[i / 64] >> i % 64 & 1)) s->logit[i] = -INFINITY;
}

bool sampler_is_argmax(const sample_params *p)
{
    bool adjusts = false;
    for (int k = 0; k < sample_step_count; k++)
        adjusts = adjusts || (sample_steps[k]->adjust && sample_steps[k]->adjusts(p));
    return p->temperature <= 0 && !adjusts;
}

int32_t sampler_pick(sampler *s, const sample_params *p, const sample_input *in)
{
    adjust(s, p, in);
    const best_logit top = logits_best(s->logit, s->n_vocab);
    if (p->temperature <= 0 || !isfinite(top.value)) return top.id;
    double u = rng_uniform((uint64_t)p->seed, (uint64_t)p->choice, (uint64_t)(in->n_prompt + in->n_generated));
    candidates c = {.logit = s->logit,
                    .heap = s->heap,
                    .n_vocab = s->n_vocab,
                    .n_sorted = -1,
                    .best = top.value,
                    .temperature = p->temperature,
                    .end = s->n_vocab,
                    .mass_max = INFINITY};
    bool is_cut = false;
    for (int k = 0; k < sample_step_count; k++)
        if (sample_steps[k]->cut && sample_steps[k]->cut(&c, p)) is_cut = true;
    return is_cut ? candidates_draw(&c, u) : candidates_draw_by_id(&c, u);
}

float sampler_logprobs(sampler *s, const float *logits, int32_t n_vocab, int32_t id, top_logprob *best, int32_t n)
{
    if (n_vocab > s->n_vocab) n_vocab = s->n_vocab;
    float top = -INFINITY;
    for (int32_t i = 0; i < n_vocab; i++)
        if (logits[i] > top) top = logits[i];
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        if (!isnan(logits[i])) sum += fm_exp(logits[i] - top);
    float norm = (float)((double)top + log(sum));
    int32_t held = 0;
    for (int32_t i = 0; i < n_vocab && n > 0; i++) {
        float v = isnan(logits[i]) ? -INFINITY : logits[i] - norm;
        if (held == n && v <= best[held - 1].logprob) continue;
        int32_t at = held < n ? held++ : n - 1;
        for (; at > 0 && best[at - 1].logprob < v; at--) best[at] = best[at - 1];
        best[at] = (top_logprob){i, v};
    }
    return id >= 0 && id < n_vocab ? logits[id] - norm : -INFINITY;
}
