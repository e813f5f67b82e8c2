/* gguf_names.h - what the weights of a model are called in GGUF, whatever it was loaded from: what llama.cpp's tools call them. */
#ifndef MODELS_GGUF_NAMES_H
#define MODELS_GGUF_NAMES_H
#include "models/model.h"

typedef struct gguf_names gguf_names;

enum { GGUF_NAMES_MAX = 8 };

/* The model must outlive it. Families without a form in GGUF have no names there. */
int gguf_names_open(gguf_names **out, const model *m, err *e);
void gguf_names_close(gguf_names *g); /* NULL ok */

/* Names that a matrix may have, NULL behind the last, the one that a file has or an export would give it first: "blk.3.attn_q.weight",
 * and where the family is also found with fused tensors "blk.3.attn_qkv.weight". The strings live as long as g. */
int gguf_names_of(gguf_names *g, const weight *w, const char *out[GGUF_NAMES_MAX], err *e);

#endif
