/* perplexity.h - how well a model predicts a text: exp of the mean negative log-likelihood of its tokens.
 *
 * Two methods of the field. Windows (llama.cpp): the text is divided into windows of `window` tokens that do not overlap, the rest is
 * dropped; of each window the second half is scored, so every scored token has at least half a window before it; with `bos`
 * >= 0 the first token of each window is replaced by it. Stride (Hugging Face): windows begin every `stride` tokens and each
 * scores the tokens that no window before it has scored. */
#ifndef ENGINE_PERPLEXITY_H
#define ENGINE_PERPLEXITY_H
#include "engine/engine.h"

typedef struct perplexity_options {
    int64_t window;                                           /* tokens, <= context */
    int64_t stride;                                           /* 0: windows of llama.cpp */
    int32_t bos;                                              /* -1 none */
    void (*progress)(void *ctx, int64_t done, int64_t total); /* NULL ok; after each window */
    void *ctx;
} perplexity_options;

typedef struct perplexity_result {
    double nll; /* mean over tokens, natural logarithm */
    int64_t tokens;
} perplexity_result;

/* ERR_USAGE when the text is shorter than a window (message holds both numbers). */
int perplexity_measure(engine *g, const int32_t *ids, size_t n, const perplexity_options *o, perplexity_result *out,
                       err *e);

#endif
