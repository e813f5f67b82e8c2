/* tokenizer_open.h - finds out what kind of tokenizer a file, a folder or a model holds, by content, and reads it. */
#pragma once
#include "io/ckpt.h"
#include "text/tokenizer.h"

/* Opens a Hugging Face directory, tokenizer.json, tokenizer.model, vocab.json (merges.txt beside it), vocab.txt, a
 * tiktoken rank file (`pre` names its pattern: "llama3", "cl100k", …), a .gguf, or a llama2.c tokenizer.bin: recognised
 * by content. Files that define the pattern themselves need `pre` NULL, else ERR_USAGE. */
int tokenizer_open(tokenizer **out, const char *path, const char *pre, err *e);
/* The tokenizer of an encoder-decoder's output, where it differs from the input's: target_tokenizer.json in the model's
 * folder, or Marian's target.spm with target_vocab.json (or vocab.json). ERR_NOT_FOUND: one tokenizer serves both. */
int tokenizer_open_target(tokenizer **out, const char *folder, err *e);
int tokenizer_target_of_model(tokenizer **out, const ckpt *model, err *e); /* the same of a model's own files */
/* The tokenizer that a model carries: GGUF metadata, or files in its folder. ERR_NOT_FOUND: it carries none. */
int tokenizer_of_model(tokenizer **out, const ckpt *model, const char *pre, err *e);
