/* attempt_command.h - rows of commands that end by themselves. */
#pragma once
#include "tests/pairs/attempt.h"

/* `run`: its ids; twice where it keeps a session, and with a replay of its receipt. */
void attempt_run(const attempt *t, const uint8_t *row, attempt_outcome *out);
/* `eval logits`: its output file. */
void attempt_logits(const attempt *t, const uint8_t *row, attempt_outcome *out);
/* `bench`: nothing is compared. */
void attempt_bench(const attempt *t, const uint8_t *row, attempt_outcome *out);
