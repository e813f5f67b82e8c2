/* sample_step.h - one step on the way from logits to a token, as a row: it adjusts logits, or it cuts candidates.
 * Candidates are there only when the temperature is not 0; the draw follows. */
#pragma once
#include "sample/candidates.h"
#include "sample/sample.h"

typedef struct sample_logits {
    float *logit; /* [n_vocab], to be changed */
    int32_t n_vocab;
    uint32_t *count; /* [n_vocab] for the step's own use: zero before it and after it */
    const sample_input *in;
} sample_logits;

static inline bool sample_in_vocab(const sample_logits *l, int32_t id) { return id >= 0 && id < l->n_vocab; }

/* One of the two; with the default parameters a step does nothing. */
typedef struct sample_step {
    bool (*adjusts)(const sample_params *p); /* false: it is off */
    void (*adjust)(const sample_logits *l, const sample_params *p);
    /* Narrows the range or the bounds; at least one candidate is left. False: it is off. */
    bool (*cut)(candidates *c, const sample_params *p);
} sample_step;

extern const sample_step *const sample_steps[]; /* in the order of SAMPLER_LIST */
extern const int sample_step_count;
