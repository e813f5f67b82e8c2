/* smp_repetition.c - repetition penalty (CTRL, arXiv 1909.05858): tokens of the prompt and of the generated text become
 * less likely, once, however often they were seen. */
#include "sample/sample_step.h"

static void penalize(const sample_logits *l, float factor, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!sample_in_vocab(l, ids[i]) || l->count[ids[i]]++) continue;
        float *v = &l->logit[ids[i]];
        *v = *v > 0 ? *v / factor : *v * factor;
    }
}

static void forget(const sample_logits *l, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (sample_in_vocab(l, ids[i])) l->count[ids[i]] = 0;
}

static bool is_on(const sample_params *p) { return p->repetition_penalty != 1; }

static void adjust(const sample_logits *l, const sample_params *p)
{
    penalize(l, (float)p->repetition_penalty, l->in->prompt, l->in->n_prompt);
    penalize(l, (float)p->repetition_penalty, l->in->generated, l->in->n_generated);
    forget(l, l->in->prompt, l->in->n_prompt);
    forget(l, l->in->generated, l->in->n_generated);
}

const sample_step smp_repetition = {.is_on = is_on, .adjust = adjust};
