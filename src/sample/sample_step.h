/* sample_step.h - one step on the way from logits to a token, as a row: it adjusts logits, cuts candidates, or draws.
 * Candidates are there only when the temperature is not 0. */
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

/* What a draw depends on, besides the candidates. */
typedef struct sample_chance {
    const sample_params *p;
    const sample_input *in;
    double u, coin;  /* two random numbers of the position, 0 <= … < 1 */
    uint32_t *count; /* as sample_logits.count */
} sample_chance;

/* Either adjust, cut or draw; with the default parameters a step does nothing. */
typedef struct sample_step {
    bool (*is_on)(const sample_params *p);
    void (*adjust)(const sample_logits *l, const sample_params *p);
    void (*cut)(candidates *c, const sample_params *p); /* at least one is left */
    /* The place of the token. The first step that is on and draws does so; without one candidates_draw does. */
    int64_t (*draw)(candidates *c, const sample_chance *x);
} sample_step;

extern const sample_step *const sample_steps[]; /* in the order of SAMPLER_LIST */
extern const int sample_step_count;
