/* quantized.h - a loaded model as one self-contained safetensors file, each weight in the bytes in which it is held: loading it is mapping it.
 *
 * Recipes are resolved: the file has one tensor for each weight, under the weight's name ("dec.3.attn.q"), and the spec in it names those.
 * Matrices whose type has a packed form (tensor/panel.h) and which are only multiplied by or looked up in are panels (of stacks, where each
 * matrix is whole panels); the others are rows of
 * blocks, vectors float32. Nothing but a few megabytes of one tensor is held in memory, and all threads work on it. */
#ifndef MODELS_QUANTIZED_H
#define MODELS_QUANTIZED_H
#include "base/json.h"
#include "models/model.h"
#include "tensor/quant_fit.h"

typedef struct quantized_options {
    int threads; /* 0 = all this process may use */
    /* How much errors of each column of a weight matter; or no function. */
    fit_importance (*importance)(void *self, const weight *w);
    void *self;
} quantized_options;

/* Writes the weights in the types that the model was opened with (model_options.policy; act = "f32"). `metadata` is an object of strings that
 * already holds the side files (self_add_file); types, shapes and the spec are added to it. */
int quantized_write(const model *m, json *metadata, const char *path, const quantized_options *o, err *e);

#endif
