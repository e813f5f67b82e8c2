/* answer_loop.h - runs the engine on this thread until the answer of its only query has ended. */
#pragma once
#include "engine/answer.h"

/* Ctrl-C ends the answer after the step under way, while the prompt is read too; *unread (NULL ok) is then how much of
 * the prompt was not. bar: prompt_bar_show. Errors of the engine; what answer_take said is the caller's. */
int answer_loop(engine *eng, const answer *a, uint64_t id, bool bar, int64_t *unread, err *e);
