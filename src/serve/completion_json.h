/* completion_json.h - the choices of a completion as JSON. */
#pragma once
#include "serve/completion.h"

/* The next chunk of a choice as an SSE event: text up to byte `upto` and the tokens that begin before it; everything
 * that is left when the choice has ended. */
void chunk_write(buf *out, job *j, choice *c, size_t upto);
void chunk_usage(buf *out, const job *j);
/* The whole reply. */
void completion_write(buf *out, job *j);
