/* tokenizer_choice.h - the tokenizer that a command's model flags name, without loading weights. */
#ifndef APP_TOKENIZER_CHOICE_H
#define APP_TOKENIZER_CHOICE_H
#include "engine/engine.h"

/* --tokenizer, else that of --model, --spec, or the built-in model. tokenizer_close it. ERR_NOT_FOUND when the model has none. */
int tokenizer_choose(tokenizer **out, const engine_options *o, err *e);
/* The tokenizer of what the model in a folder writes (--target). */
int tokenizer_choose_target(tokenizer **out, const engine_options *o, err *e);

/* ERR_USAGE for a model that has no tokenizer; a file beside it that looks like one is named. `instead`: what serves too, or "". */
int tokenizer_missing(const engine *g, const char *instead, err *e);

/* The next line of standard input in JSON (--jsonl): 1, or 0 at the end. *line counts lines for messages; json_free *out. */
int jsonl_next(json **out, size_t *line, err *e);

#endif
