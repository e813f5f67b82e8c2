/* export.h - a loaded model under the names of a container: Hugging Face (config.json, safetensors) or GGUF.
 *
 * A spec's tables are read backwards: [tensors] gives the name of a slot there and the recipe of its values, which is
 * reversed; [config] gives the key of the container's metadata that a value came from, and it goes back there. A
 * checkpoint that is of the wanted kind already is copied. That the result is the same model is checked: export_check
 * loads it and compares the programs. */
#pragma once
#include "io/gguf_pairs.h"
#include "io/write.h"
#include "models/model.h"

typedef enum export_kind { EXPORT_HF, EXPORT_GGUF } export_kind;

typedef struct exporter exporter;

/* Describes the output. `type`: of matrices (in HF of all floats); DTYPE_NONE keeps the checkpoint's types where the
 * container has them. ERR_SPEC names the slot or key that the spec has no name for. The model must outlive it. */
int export_open(exporter **out, const model *m, export_kind kind, dtype type, err *e);
/* The same for GGUF, with matrices in the types of model_options.policy, or the nearest that fit their rows. */
int export_open_held(exporter **out, const model *m, err *e);
/* Asks `find` for the importance of the columns of each tensor that is encoded, by its name in the file; parts: the
 * matrices of a stack, or 1. The importance stays the caller's. */
typedef fit_importance weigh_fn(void *self, const char *name, int64_t rows, int64_t cols, int64_t parts);
void export_weigh(exporter *x, weigh_fn *find, void *self);
void export_close(exporter *x); /* NULL ok */

const write_tensor *export_tensors(const exporter *x, size_t *n);
/* EXPORT_HF: the contents of config.json. */
const json *export_config(const exporter *x);
/* Whether quantized matrices are written as f32 because the container has no such type. */
bool export_widens(const exporter *x);
/* EXPORT_HF: the class, where transformers has none of that name and config.json has no auto_map; else NULL. */
const char *export_class_apart(const exporter *x);
/* EXPORT_GGUF: all key-values but the vocabulary; the caller may add to them. */
gguf_pairs *export_pairs(exporter *x);

/* Whether the checkpoint carried its own vocabulary along into export_pairs. */
bool export_has_vocabulary(const exporter *x);

/* Loads the export at `path` and compares its program with the model's: the same ops, shapes and rotary tables. */
int export_check(const model *m, const char *path, err *e);
