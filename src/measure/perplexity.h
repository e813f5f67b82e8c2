/* perplexity.h - how well a model predicts a text: exp of the mean negative log-likelihood of its tokens. */
#pragma once
#include "measure/windows.h"

typedef struct perplexity_result {
    double nll;   /* mean over tokens, natural logarithm */
    double error; /* standard error of that mean, as if tokens were drawn one by one */
    int64_t tokens;
} perplexity_result;

/* Errors as windows_each. */
int perplexity_measure(engine *g, const int32_t *ids, size_t n, const windows *w, perplexity_result *out, err *e);
