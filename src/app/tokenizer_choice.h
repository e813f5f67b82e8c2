/* tokenizer_choice.h - the tokenizer that a command's model flags name, without loading weights. */
#pragma once
#include "engine/engine.h"

/* That of --tokenizer, else of --model, --spec, or the built-in model. ERR_NOT_FOUND: there is none. */
int tokenizer_choose(tokenizer **out, const engine_options *o, err *e);
/* The target-language tokenizer of the model in a folder (--target). */
int tokenizer_choose_target(tokenizer **out, const engine_options *o, err *e);

/* ERR_USAGE for a model without tokenizer; names a file beside it that looks like one. `instead`: what else works,
 * or "". */
int tokenizer_missing(const engine *g, const char *instead, err *e);

/* The next line of standard input in JSON (--jsonl), to be freed: 1, or 0 at the end. *line counts lines. */
int jsonl_next(json **out, size_t *line, err *e);
