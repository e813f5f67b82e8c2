/* completion_json.h - the choices of a completion as JSON. */
#pragma once
#include "serve/completion.h"

/* The next chunk of a choice as an SSE event: text up to byte `upto` and the tokens that begin before it; everything
 * that is left when the choice has ended. */
void chunk_write(buf *out, job *j, choice *c, size_t upto);
void chunk_usage(buf *out, const job *j);
/* How far the prompt of a choice has been read, as a chunk without choices. */
void chunk_reading(buf *out, const job *j, const choice *c, int64_t read);
void reply_reading_write(buf *out, const job *j, const choice *c, int64_t read); /* its member, as llama.cpp names it */
/* Parts that replies to chats have too: up to the choices; a log-probability; members of a choice behind the usual ones
 * (whole: it is the choice's only or last part; index: in the reply). */
void reply_head_write(buf *out, const job *j);
void reply_logprob_write(buf *out, float v);
void reply_extras_write(buf *out, const job *j, choice *c, int index, bool whole);
/* The whole reply. */
void completion_write(buf *out, job *j);
