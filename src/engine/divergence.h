/* divergence.h - how far the predictions of one model are from another's: per row KL(reference || tested) = sum p (log p - log q), with
 * what goes with it.
 *
 * Both models see the same ids, one sequence at a time: the reference's logits of the sequence's rows are kept, the tested model's are
 * compared as they come. Everything from logits on is double. */
#ifndef ENGINE_DIVERGENCE_H
#define ENGINE_DIVERGENCE_H
#include "engine/engine.h"

typedef struct divergence divergence;

typedef struct divergence_result {
    double kl_mean, kl_p99;    /* over rows, nats; the 99th percentile is interpolated linearly */
    double top1_agreement;     /* share of rows with the same most likely token; ties go to the lower id */
    double nll, nll_reference; /* mean negative log-likelihood of the tokens that follow; NAN for encoders */
    int64_t tokens;            /* rows compared */
} divergence_result;

/* Both engines stay the caller's and outlive it. ERR_USAGE when their vocabularies differ in size, when only one of them generates, or
 * for encoder-decoders. */
int divergence_open(divergence **out, engine *tested, engine *reference, err *e);
void divergence_close(divergence *d); /* NULL ok */

/* Compares rows first … n-2 of a sequence; of encoders, which see all tokens in every row, also row n-1. Is a window_fn. */
int divergence_add(void *d, const int32_t *ids, int64_t n, int64_t first, err *e);

/* Of all sequences added so far. ERR_USAGE when there was no row. */
int divergence_get(divergence *d, divergence_result *out, err *e);

#endif
