/* windows.h - a long text as windows of a context, with the rows of each that are scored.
 *
 * Two methods of the field. Plain (llama.cpp): windows do not overlap, the rest of the text is dropped; of each window
 * the second half is scored, so every scored token has at least half a window before it; with `bos` >= 0 the first
 * token of each window is replaced by it. Stride (Hugging Face): windows begin every `stride` tokens and each scores
 * the tokens that no earlier window has scored. */
#pragma once
#include "engine/engine.h"

typedef struct windows {
    int64_t window;                                           /* tokens, <= context */
    int64_t stride;                                           /* 0: the plain method */
    int32_t bos;                                              /* -1: none; not used with strides */
    void (*progress)(void *ctx, int64_t done, int64_t total); /* NULL ok; after each window */
    void *ctx;
} windows;

/* One window: rows first … n-2 are scored; row i predicts ids[i + 1]. */
typedef int (*window_fn)(void *ctx, const int32_t *ids, int64_t n, int64_t first, err *e);

/* Calls fn for each window of a text for a model that generates (others: ERR_USAGE). ERR_USAGE when the text is shorter
 * than a window (message holds both numbers). */
int windows_each(const engine *g, const int32_t *ids, size_t n, const windows *w, window_fn fn, void *ctx, err *e);
