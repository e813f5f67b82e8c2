/* smp_occurrence.c - OpenAI's presence and frequency penalties, over generated tokens. */
#include "sample/sample_step.h"

static bool is_on(const sample_params *p) { return p->presence_penalty != 0 || p->frequency_penalty != 0; }

static void adjust(const sample_logits *l, const sample_params *p)
{
    const sample_input *in = l->in;
    for (int64_t i = 0; i < in->n_generated; i++)
        if (sample_in_vocab(l, in->generated[i])) l->count[in->generated[i]]++;
    for (int64_t i = 0; i < in->n_generated; i++) {
        int32_t id = in->generated[i];
        if (!sample_in_vocab(l, id) || !l->count[id]) continue;
        l->logit[id] -= (float)(p->presence_penalty + p->frequency_penalty * l->count[id]);
        l->count[id] = 0;
    }
}

const sample_step smp_occurrence = {.is_on = is_on, .adjust = adjust};
