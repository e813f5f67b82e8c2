/* divergence.h - how far the predictions of one model are from another's: KL(reference || tested) = sum p (log p - log
 * q) of each row, top-1 agreement and likelihoods.
 *
 * Both models see the same ids, one sequence at a time: the reference's logits are kept, those of the tested model are
 * compared with them row by row. All arithmetic after the logits is in double. */
#pragma once
#include "engine/engine.h"

typedef struct divergence divergence;

typedef struct divergence_result {
    double kl_mean, kl_p99;    /* over rows, nats; the 99th percentile is interpolated linearly */
    double top1_agreement;     /* share of rows with the same most likely token; ties go to the lower id */
    double nll, nll_reference; /* mean negative log-likelihood of the tokens that follow; NAN for encoders */
    int64_t tokens;            /* rows compared */
} divergence_result;

/* Both engines stay the caller's and outlive it. ERR_USAGE when their vocabularies differ in size, when only one of
 * them generates, or for encoder-decoders. */
int divergence_open(divergence **out, engine *tested, engine *reference, err *e);
void divergence_close(divergence *d); /* NULL ok */

/* A window_fn. Compares rows first … n-2 of a sequence; of encoders, where every row sees all tokens, also row n-1. */
int divergence_add(void *d, const int32_t *ids, int64_t n, int64_t first, err *e);

/* Of all sequences added so far. ERR_USAGE when there was no row. */
int divergence_get(divergence *d, divergence_result *out, err *e);
