/* ids.h - token ids on the command line. */
#pragma once
#include "base/err.h"
#include "base/span.h"
#include "text/tokenizer.h"

/* Appends ids written "1,2,3", "1 2 3" or "[1, 2, 3]"; "@FILE" reads them from a file ("@-": standard input).
 * Ids are 0 … 2^31-1; ERR_USAGE names what is not one. token_list_free the result, on errors too. */
int ids_parse(token_list *out, const char *text, err *e);

/* The same for text in memory; `where` names it in messages. */
int ids_parse_text(token_list *out, span text, const char *where, err *e);
