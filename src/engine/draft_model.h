/* draft_model.h - guesses of a small model with the same vocabulary, in an engine of its own.
 *
 * Each session has a twin there, with the same text as far as the small model has read it. A guess is what the small
 * model draws with the random number of the position, which is the one that the large model will use: where both give
 * similar probabilities, both draw the same. Twins are computed together, a token of each in a step. */
#pragma once
#include "engine/draft.h"

extern const draft_source draft_model; /* `self`: the engine of the small model */

/* Opens it, as g's options say. ERR_USAGE: it cannot guess for g. */
int draft_model_open(struct engine **out, const struct engine *g, err *e);
/* Gives a session of a new query its twin, with the query's grammar (NULL: none); from any thread. None where its text
 * does not fit the small context. */
int draft_twin(struct engine *small, session *s, grammar *form, err *e);
void draft_twin_drop(struct engine *small, session *s); /* its pages */
