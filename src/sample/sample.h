/* sample.h - logits to a token: penalties, bias, temperature, filters, one draw.
 *
 * Deterministic: the random number is a function of (seed, choice, position) and ties take the lowest id, so the same
 * request gives the same tokens whatever else the engine does. The order is the field's: penalties, bias and mask on
 * the logits; the likeliest token when the temperature is 0; else temperature, top-k, top-p, min-p, the draw. */
#pragma once
#include "base/err.h"
#include "base/param.h"
#include "sample/sampler_list.h"

#include <stdint.h>

typedef struct sample_params {
#define SAMPLE_INT         int64_t
#define SAMPLE_FLOAT       double
#define X(kind, name, ...) SAMPLE_##kind name;
    SAMPLE_PARAM_LIST(X)
#undef X
    int64_t choice; /* k of the k-th choice of a request */
} sample_params;

extern const param sample_param_rows[]; /* "temperature" (alias "temp"), "top_k", … */
extern const size_t sample_param_count;

typedef struct logit_bias {
    int32_t id;
    float bias;
} logit_bias;

typedef struct top_logprob {
    int32_t id;
    float logprob;
} top_logprob;

/* Working memory for one vocabulary, reused by every call: no allocation in the token loop. */
typedef struct sampler sampler;
int sampler_open(sampler **out, int32_t n_vocab, err *e);
void sampler_close(sampler *s);

typedef struct sample_input {
    const float *logits; /* [n_vocab], not changed */
    int32_t n_vocab;
    const int32_t *prompt; /* tokens before generation */
    int64_t n_prompt;
    const int32_t *generated;
    int64_t n_generated;
    const logit_bias *bias;
    int32_t n_bias;
    const int32_t *banned; /* ids that must not be drawn now (EOS before min_tokens) */
    int32_t n_banned;
    const uint64_t *allowed; /* [(n_vocab + 63) / 64] a bit an id: those that may be drawn; NULL: all */
} sample_input;

/* Whether sampler_pick is the best logit, of equals the first, when there is no bias and nothing is banned. */
bool sampler_is_argmax(const sample_params *p);
/* The next token. NaN logits never win. */
int32_t sampler_pick(sampler *s, const sample_params *p, const sample_input *in);

/* Returns the log-probability of `id` in the raw distribution, before penalties, bias and temperature; fills the n
 * best. */
float sampler_logprobs(sampler *s, const float *logits, int32_t n_vocab, int32_t id, top_logprob *best, int32_t n);
