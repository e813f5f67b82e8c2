/* load_tiktoken.h - tiktoken rank files. */
#pragma once
#include "text/tokenizer_state.h"

/* `pre` names the pattern, which the file lacks: NULL is ERR_USAGE. */
int load_tiktoken(tokenizer *t, span file, const char *path, const char *pre, err *e);
/* Whether the bytes look like such a file, without reading all of it. */
bool tiktoken_probe(span file);
