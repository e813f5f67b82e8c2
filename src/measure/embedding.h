/* embedding.h - embeddings and scores of texts: tokenizes them, and runs many of them at once. */
#pragma once
#include "base/span.h"
#include "engine/engine.h"

/* ERR_USAGE when the model makes no vectors (scores false), has no classification head (scores true), or makes vectors
 * in a way that is unknown here; `pooling_given`: the command line says how to pool, whatever the model's files say. */
int embedding_check(const engine *g, bool scores, bool pooling_given, err *e);

/* Appends ids and token types of a text, or of two as one input (second NULL: one). One text gets the model's default
 * prompt in front. Inputs are cut to the length that the model's files give, and to the context, as
 * sentence-transformers does; *cut (NULL ok) says whether this one was. */
int embedding_tokenize(const engine *g, span text, const span *second, bool *cut, token_list *ids, token_list *types,
                       err *e);

/* One input, and where its result goes. */
typedef struct embedding_job {
    const int32_t *ids, *types; /* types NULL: all 0 */
    size_t n;
    float *vector, *scores; /* [n_pooled], [n_score]; NULL: not wanted */
} embedding_job;

/* Runs all jobs, long ones first, many in a step; `progress` (NULL ok) is called with the number of jobs done after
 * every step. Not while other queries run. */
int embedding_run(engine *g, embedding_job *jobs, size_t n, void (*progress)(void *ctx, size_t done), void *ctx,
                  err *e);
