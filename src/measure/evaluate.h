/* evaluate.h - one sequence without sampling: logits or hidden states of every row, chunk by chunk. */
#pragma once
#include "engine/engine.h"

/* Consecutive rows of logits [n, n_vocab] or, with layer >= 0, of hidden states [n, engine_width] as in transformers: 0
 * is the input of the first layer, l the output of layer l, n_layer that of the last one after the final norm. */
typedef int (*rows_fn)(void *ctx, const float *rows, int64_t first, int64_t n, err *e);
int32_t engine_width(const engine *g, int layer); /* columns of such rows */

/* Not while queries run. */
int engine_eval(engine *g, const int32_t *ids, size_t n, int layer, rows_fn on_rows, void *ctx, err *e);
/* The same of the ids and enc_ids of a query: for encoder-decoders. */
int engine_eval_query(engine *g, const query *q, int layer, rows_fn on_rows, void *ctx, err *e);
