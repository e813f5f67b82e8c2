/* write_hf_tokenizer.h - a tokenizer as the files of a Hugging Face folder. */
#pragma once
#include "base/buf.h"
#include "text/tokenizer.h"

/* Appends tokenizer.json and tokenizer_config.json. Like write_gguf_vocab it tries, reads back and compares.
 * ERR_NOT_FOUND: of a kind that is not written (only BPE is). */
int write_hf_tokenizer(const tokenizer *t, buf *file, buf *config, err *e);
