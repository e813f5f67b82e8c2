/* beam.h - beam search: the n most probable texts are followed at once, and the best that ended is the answer (Sutskever et al. 2014,
 * arXiv 1409.3215). Which continuations live on, how finished texts are scored and when nothing better can come is as
 * transformers' generate decides (its version 5), so that answers agree.
 *
 * A query with n beams is n sessions that step together: its own, which is in the engine's lists and reads prompt and encoder
 * input, and n - 1 others that exist only here. When a beam dies, its session takes over another's text. Positions where two
 * texts agree hold the same keys and values to the bit, so only pages from the first other token on are copied. Encoder
 * pages are the first session's; the others look into them. */
#ifndef ENGINE_BEAM_H
#define ENGINE_BEAM_H
#include "engine/engine_state.h"

enum { BEAMS_MAX = 64 };

/* The group of a query with q.beams > 1, whose own session is `first`; *first gets it. */
int beam_new(session *first, const query *q, const engine *g, err *e);
void beam_free(beam_group *b); /* the sessions but the first; NULL ok */

int beam_count(const session *s); /* sessions of the query: 1 without a group */
session *beam_member(session *s, int i);
/* False: a session of a group that has nothing to compute now: not yet a text of its own, or it waits for the others. */
bool beam_ready(const session *s);

/* The logits behind the last token of one session. With the last one's the group moves on; its query may end here. */
void beam_take(engine *g, session *s, const float *logits, uint64_t *made);

#endif
