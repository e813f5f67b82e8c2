/* text_form.h - the grammar of generated text from a file: --grammar, --json-schema. */
#pragma once
#include "engine/engine.h"

/* The paths may be NULL, "-" is standard input; at most one is given. *out: NULL where the text is free, else for
 * grammar_drop. */
int text_form_read(grammar **out, engine *g, const char *gbnf, const char *schema, err *e);
