/* load_hf_json.h - tokenizer.json of the Hugging Face library, and what other loaders share with it. */
#pragma once
#include "base/json.h"
#include "text/tokenizer_state.h"

/* Fills an empty tokenizer, as every loader does. */
int load_hf_json(tokenizer *t, const json *root, const char *path, err *e);

/* Puts {"piece": id, ...} into the vocabulary. */
int hf_read_pieces(tokenizer *t, const json *root, const char *path, err *e);
/* Adds a merge given by its two halves; `joined` is working memory. */
int hf_add_merge(tokenizer *t, span a, span b, uint32_t rank, buf *joined, err *e);
/* Finishes a tokenizer whose vocabulary, merges, steps and special tokens are all set. */
int hf_finish(tokenizer *t, err *e);
