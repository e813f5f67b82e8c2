/* load_llama2c.h - tokenizer.bin of llama2.c. */
#pragma once
#include "text/tokenizer_state.h"

int load_llama2c(tokenizer *t, span file, const char *path, err *e);
/* Whether the bytes look like such a file, without reading all of it. */
bool llama2c_probe(span file);
