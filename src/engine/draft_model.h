/* draft_model.h - guesses of a small model with the same vocabulary, in an engine of its own.
 *
 * Each session has a model_session there, with the same text as far as the small model has read it. A guess is what the
 * small model draws with the random number of the position, which is the one that the large model will use: where both
 * give similar probabilities, both draw the same. These sessions are computed together, a token of each in a step. */
#pragma once
#include "engine/draft.h"

extern const draft_kind draft_model; /* `self`: the engine of the small model */

/* Where g's options name a model that guesses: opens it, as they say, on the device that has g's head. For
 * engine_options.before_pages: it takes its memory before g's pages are counted, and leaves as many of these as it has
 * itself. */
int draft_model_open(struct engine *g, err *e);
/* Whether it can guess for g, which is open; ERR_USAGE: it cannot. */
int draft_model_check(const struct engine *g, err *e);
