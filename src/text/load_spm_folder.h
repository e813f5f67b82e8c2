/* load_spm_folder.h - SentencePiece models in a model's folder, numbered and framed as its class says. */
#pragma once
#include "text/load_tokenizer_config.h"

/* Alone. */
int load_spm_model(tokenizer *t, span file, const char *path, const tokenizer_config *s, err *e);
/* With vocab.json (its parsed object) that numbers the pieces: Marian, M2M100. */
int load_numbered_spm(tokenizer *t, const json *vocab_root, span spm, const char *path, const tokenizer_config *s,
                      err *e);
