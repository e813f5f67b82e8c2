/* write_gguf_vocab.h - a tokenizer as the vocabulary of a GGUF file. */
#pragma once
#include "io/gguf_pairs.h"
#include "text/tokenizer.h"

/* Adds tokenizer.ggml.* for `size` ids (a model may have more rows than its vocabulary). The format names
 * pre-tokenizers instead of describing them: names are tried, and nothing is added unless the vocabulary, read back,
 * cuts sample texts into the same ids. ERR_NOT_FOUND: the format cannot say what this tokenizer does. */
int write_gguf_vocab(const tokenizer *t, uint32_t size, gguf_pairs *out, err *e);
