/* load_hf_json.h - tokenizer.json of the Hugging Face library, and what other files share with it: pieces by number, merges. */
#ifndef TEXT_LOAD_HF_JSON_H
#define TEXT_LOAD_HF_JSON_H
#include "base/json.h"
#include "text/tokenizer_state.h"

/* Each loader fills an empty tokenizer. */
int load_hf_json(tokenizer *t, const json *root, const char *path, err *e);

/* {"piece": id, ...} into the vocabulary. */
int hf_read_pieces(tokenizer *t, const json *root, const char *path, err *e);
/* A merge given by its two halves; `joined` is working memory. */
int hf_add_merge(tokenizer *t, span a, span b, uint32_t rank, buf *joined, err *e);
/* What is left to do when vocabulary, merges, steps and special tokens are all there. */
int hf_finish(tokenizer *t, err *e);

#endif
