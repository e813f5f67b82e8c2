/* attempt_server.h - rows of commands that run until they are told to end. */
#pragma once
#include "tests/pairs/attempt.h"

/* `serve`, and some requests of each kind: the ids of completions. */
void attempt_serve(const attempt *t, const uint8_t *row, attempt_outcome *out);
/* `node`, and a leader that runs a text on it: the leader's ids. */
void attempt_node(const attempt *t, const uint8_t *row, attempt_outcome *out);
