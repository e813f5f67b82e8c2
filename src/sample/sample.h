/* sample.h - logits to a token: penalties, bias, temperature, filters, one draw.
 *
 * Deterministic: the random number is a function of (seed, choice, position) and ties take the lowest id, so the same
 * request gives the same tokens whatever else the engine does. The order is: penalties, bias and mask on the
 * logits; the likeliest token when the temperature is 0; else temperature, then the cuts of sampler_list.h and a draw.
 *
 * At 151 936 tokens, on one thread with AVX-512 (EPYC, 1 MiB of second-level cache): temperature alone 0.08 ms,
 * with top-k 0.17, min-p 0.11, top-p and typical 0.16 to 0.3, mirostat 0.09 to 0.3, FSD 0.17 to 0.25; 20
 * log-probabilities 0.15. The second numbers are of rows in which no token stands out. Tail-free has to sort what has
 * any weight: 0.15, or 0.8 in such rows. With AVX2 a third more. */
#pragma once
#include "base/err.h"
#include "base/param.h"
#include "core/vocab_scan.h"
#include "sample/sampler_list.h"

#include <stdint.h>

typedef struct sample_params {
#define SAMPLE_INT         int64_t
#define SAMPLE_FLOAT       double
#define SAMPLE_TEXT        const char *
#define X(kind, name, ...) SAMPLE_##kind name;
    SAMPLE_PARAM_LIST(X)
#undef X
    int64_t choice; /* k of the k-th choice of a request */
} sample_params;

/* What a sampler remembers of a text besides its ids, before a position: at most 64 bytes. */
typedef struct sample_state {
    float mu; /* smp_mirostat.c */
} sample_state;

extern const param sample_param_rows[]; /* "temperature" (alias "temp"), "top_k", … */
extern const size_t sample_param_count;
#define X(...) +1
enum { SAMPLE_PARAM_N = 0 SAMPLE_PARAM_LIST(X) }; /* the same, for arrays */
#undef X
/* Names the source of every row in which `now` differs from `before`. */
void sample_note_source(const char *source[SAMPLE_PARAM_N], const char *name, const sample_params *before,
                        const sample_params *now);

/* Where nothing but the seed was set by anybody: what conversations read well with, 0.8, top-k 40, top-p 0.95 and min-p
 * 0.05, as llama.cpp has them. False: something was, and all stays. */
bool sample_for_conversation(sample_params *p);
/* A seed of -1 becomes a random one of 31 bits, which every reader of JSON keeps. */
void sample_seed_draw(sample_params *p);

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
int sampler_open(sampler **out, int32_t n_vocab, const scan_ops *scan, err *e);
void sampler_close(sampler *s);

typedef struct sample_input {
    const float *logits; /* [n_vocab], not changed; not read where there are the best ones */
    int32_t n_vocab;
    const best_logit *best; /* [n_best] as sampler_reads wants them, by id, then {-1, -inf}; NULL: there are all */
    int32_t n_best;
    const int32_t *prompt; /* tokens before generation */
    int64_t n_prompt;
    const int32_t *generated;
    int64_t n_generated;
    const logit_bias *bias;
    int32_t n_bias;
    const int32_t *banned; /* ids that must not be drawn now (EOS before min_tokens) */
    int32_t n_banned;
    const uint64_t *allowed;   /* [(n_vocab + 63) / 64] a bit an id: those that may be drawn; NULL: all */
    const sample_state *state; /* before this position; NULL: of a text that begins */
    sample_state *next;        /* where that after it goes; NULL ok */
} sample_input;

/* How many of the best logits decide the next token when there is no bias and nothing is banned: 1: it is the best, of
 * equals the first; at most BEST_MAX; 0: all count. */
int32_t sampler_reads(const sample_params *p, int32_t n_vocab);
/* Whether what it draws depends on a sample_state. */
bool sampler_has_state(const sample_params *p);
/* The next token; -1: none is left. NaN logits never win. */
int32_t sampler_pick(sampler *s, const sample_params *p, const sample_input *in);

/* How a guess of the next token may hold (engine/draft.h): it is what is drawn; by rejection sampling, so that tokens
 * have the chances that they have without guesses (Leviathan et al. 2023, algorithm 1); or it is among those that the
 * samplers leave, so that texts lean to what is guessed (Inferflow, section 8). Where a sampler of its own draws
 * (mirostat, FSD), or the temperature is 0, the guess has to be what is drawn. */
typedef enum { GUESS_SAME, GUESS_EXACT, GUESS_POOL } guess_rule;
enum { GUESS_CHANCES = 64 };
typedef struct guess_chances {
    int32_t n, id[GUESS_CHANCES]; /* the tokens among which the guess was drawn */
    float p[GUESS_CHANCES];       /* their probabilities; the sum is 1 */
} guess_chances;
/* A guess: drawn among the likeliest of the tokens that the samplers leave, whose chances are told. */
int32_t sampler_guess(sampler *s, const sample_params *p, const sample_input *in, guess_chances *q);
/* The next token, where one was guessed: the guess if it holds. q: its chances; NULL: it was certain. */
int32_t sampler_judge(sampler *s, const sample_params *p, const sample_input *in, guess_rule rule, int32_t guess,
                      const guess_chances *q);

/* Returns the log-probability of `id` in the raw distribution, before penalties, bias and temperature; fills the n
 * best. */
float sampler_logprobs(sampler *s, const float *logits, int32_t n_vocab, int32_t id, top_logprob *best, int32_t n);
