/* gguf_names.h - the names of a model's weights in GGUF and llama.cpp's tools, whatever it was loaded from. */
#pragma once
#include "models/model.h"

typedef struct gguf_names gguf_names;

enum { GGUF_NAMES_MAX = 8 };

/* The model must outlive it. Families without a form in GGUF have no names there. */
int gguf_names_open(gguf_names **out, const model *m, err *e);
void gguf_names_close(gguf_names *g); /* NULL ok */

/* The names that a matrix may have, first that of the file or of an export, NULL after the last: "blk.3.attn_q.weight",
 * and "blk.3.attn_qkv.weight" where the family also has fused tensors. The strings live as long as g. */
int gguf_names_of(gguf_names *g, const weight *w, const char *out[GGUF_NAMES_MAX], err *e);
