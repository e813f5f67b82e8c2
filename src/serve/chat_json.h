/* chat_json.h - the choices of a chat as JSON, whole and as chunks. */
#pragma once
#include "serve/completion.h"

/* Reads the choice's text up to byte `upto` into its message. False: out of memory. */
bool chat_take(job *j, choice *c, size_t upto);
/* What is new in the message since the last chunk, as SSE events; tokens that begin before `upto`. */
void chat_chunk_write(buf *out, job *j, choice *c, size_t upto);
/* The arguments of the call that was begun last, as far as they are not in earlier chunks; now they are. */
span chat_arguments_take(chat_part *p);
/* One choice of a whole reply. */
void chat_choice_write(buf *out, const job *j, choice *c, int index);
