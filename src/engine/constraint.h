/* constraint.h - the grammar of a query at work: which tokens its next draw may take.
 *
 * It belongs to a session; what it holds follows from the session's ids, so it needs no word when these change. */
#pragma once
#include "base/err.h"
#include "sample/grammar.h"

typedef struct constraint constraint;
struct session;

int constraint_open(constraint **out, grammar *g, err *e); /* keeps the grammar */
void constraint_close(constraint *c);                      /* NULL ok */

/* What is drawn instead of a token: the text is over, or there is an error (constraint_error). */
enum { CONSTRAINT_OVER = -2, CONSTRAINT_FAILED = -3 };

/* The tokens that may follow what the session has generated, a bit each, of those that its query allows; NULL: none,
 * and *why is one of the above. Those that end a text are among them where it is complete, and may end. */
const uint64_t *constraint_allowed(constraint *c, const struct session *s, int32_t *why);
/* Whether the id is among the tokens of the last call of constraint_allowed. */
bool constraint_allows(const constraint *c, int32_t id);
const char *constraint_error(const constraint *c);
/* Whether nothing may follow the n ids: those that were delivered, while draws may be ahead of them. */
bool constraint_is_over(constraint *c, const int32_t *ids, int64_t n);
