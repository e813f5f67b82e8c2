/* beam.h - beam search: the n most probable texts are followed at once, and the best that ended is the answer
 * (Sutskever et al. 2014, arXiv 1409.3215). Which continuations live on, how finished texts are scored and when the
 * search ends is decided as in generate of transformers 5, so that answers agree.
 *
 * A query with n beams is n sessions that step together: its own, which is in the engine's lists and reads prompt and
 * encoder input, and n - 1 others that exist only here. When a beam dies, its session takes over another's text: the
 * two share its full pages, and the last one, which both go on to fill, is copied. Encoder pages belong to the first
 * session; the others read them. */
#pragma once
#include "engine/engine_state.h"

/* The group of a query with q.beams > 1, whose own session is `first`; *first gets it. */
int beam_new(session *first, const query *q, const engine *g, err *e);
void beam_free(beam_group *b); /* the sessions but the first; NULL ok */

void beam_set_back(beam_group *b); /* caches were dropped: all logits of this step of the search are to come again */

int beam_count(const session *s); /* sessions of the query: 1 without a group */
session *beam_member(session *s, int i);
/* False: the session has nothing to compute now: it has no text of its own yet, or waits for the other beams. */
bool beam_ready(const session *s);

/* Takes the logits after the last token of one session. The last one's move the group on; its query may end here. */
void beam_take(engine *g, session *s, const float *logits, uint64_t *made);
