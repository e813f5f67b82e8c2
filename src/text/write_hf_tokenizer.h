/* write_hf_tokenizer.h - a tokenizer as the files of a Hugging Face folder. */
#ifndef TEXT_WRITE_HF_TOKENIZER_H
#define TEXT_WRITE_HF_TOKENIZER_H
#include "base/buf.h"
#include "text/tokenizer.h"

/* Appends tokenizer.json and tokenizer_config.json. Like tokenizer_to_gguf it tries, reads back and compares. ERR_NOT_FOUND: of a
 * kind that is not written (only BPE is). */
int tokenizer_to_json(const tokenizer *t, buf *file, buf *config, err *e);

#endif
