/* replay.h - draws a text again: whether a model, given a prompt and parameters, writes just these tokens.
 *
 * A draw is a function of parameters, position, the ids before it and logits, and logits are the same bits in any
 * batch. So one pass over prompt and text gives all logits, many rows at a time, and each token is drawn from its own:
 * several times as fast as generating it. */
#pragma once
#include "engine/engine.h"

typedef struct replay {
    int64_t at;                         /* the first position of the text whose draw differs; -1: all are equal */
    int32_t given, drawn;               /* there; given -1: the text had ended; drawn -1: no logit was finite */
    float given_logprob, drawn_logprob; /* of the raw distribution; of -1 NaN */
} replay;

/* q: as it was added, with max_tokens as cut to the context, its seed and its choice; n ids were generated. `ended`: an
 * end token was drawn after them, and is checked. Not while queries run; q's callback is not called. */
int engine_replay(engine *g, const query *q, const int32_t *ids, size_t n, bool ended, replay *out, err *e);
