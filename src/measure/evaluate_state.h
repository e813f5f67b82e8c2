/* evaluate_state.h - evaluate.c as other measurements see it. */
#pragma once
#include "engine/engine_state.h"
#include "measure/evaluate.h"

/* The logits of the rows of a session that is not queued, from row `from` on. */
int engine_eval_session(engine *g, session *s, int64_t from, rows_fn on_rows, void *ctx, err *e);
/* Runs a sequence as engine_eval does, with taps. */
int engine_watch(engine *g, const int32_t *ids, size_t n, const tap *taps, int32_t n_tap, err *e);
