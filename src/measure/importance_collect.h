/* importance_collect.h - runs a text through a model and adds up the squares of the inputs of its matrices: `eval
 * importance` writes the sums, `quantize` weighs errors with them. */
#pragma once
#include "engine/engine.h"

typedef struct importance_sum importance_sum;

/* The engine stays the caller's and outlives it; its activations must be floats (act = "f32"). An expert's matrix gets
 * its rows. */
int importance_sum_open(importance_sum **out, engine *g, err *e);
void importance_sum_close(importance_sum *s); /* NULL ok */

/* A window_fn. Adds all rows of a sequence, whatever `first` is. */
int importance_sum_add(void *s, const int32_t *ids, int64_t n, int64_t first, err *e);

/* Writes the file of io/importance.h. ERR_USAGE when nothing was added. */
int importance_sum_write(const importance_sum *s, const char *path, err *e);
