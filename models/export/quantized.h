/* quantized.h - a loaded model as one self-contained safetensors file, which is mapped to load it: each weight has its
 * bytes in memory.
 *
 * Recipes are resolved: the file has one tensor for each weight, under the weight's name ("dec.3.attn.q"), and the spec
 * in it names those. Matrices that are only multiplied by or looked up in are panels where their type has them
 * (tensor/panel.h; of stacks, where each matrix is whole panels); others are rows of blocks, vectors float32. Only a
 * few megabytes of one tensor are in memory at a time, and all threads work on it. */
#pragma once
#include "base/json.h"
#include "models/model.h"
#include "tensor/quant_fit.h"

typedef struct quantized_options {
    int threads; /* 0 = all this process may use */
    /* The importance of each column of a weight; NULL: none. */
    fit_importance (*importance)(void *self, const weight *w);
    void *self;
} quantized_options;

/* Writes the weights in the types of model_options.policy (opened with act = "f32"). `metadata` is an object of strings
 * that holds the side files already (self_add_file); types, shapes and the spec are added to it. */
int quantized_write(const model *m, json *metadata, const char *path, const quantized_options *o, err *e);
