/* load_gguf_vocab.h - the vocabulary in a GGUF file's metadata. */
#pragma once
#include "io/ckpt.h"
#include "text/tokenizer_state.h"

int load_gguf_vocab(tokenizer *t, const ckpt *model, err *e); /* ERR_NOT_FOUND when the model has none */
