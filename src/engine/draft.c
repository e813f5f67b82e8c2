/* draft.c - see draft.h. */
#include "engine/draft.h"
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

/* The time of a row beside that of a step without rows, before both are known: it invites to try. The least share of
 * a step's time that a row is taken to add. */
static const double ROW_COST = 0.1, LEAST_SHARE = 0.005;
static const float LEARN = 0.15f; /* weight of the newest guess in the share of guesses that hold */
static const float HOPE = 0.7f;   /* that share before the first guess of a session */
/* Steps without guesses, where they are not worth their time, and steps with some before the next; the first of these
 * are slow, because their code and data are cold. */
enum { WAIT_MIN = 16, WAIT_MAX = 1024, TRIES = 4 };

int draft_open(draft *d, engine *g, err *e)
{
    const char *text = g->options.draft;
    const int64_t most = g->options.draft_max;
    const char *accept = g->options.draft_accept;
    *d = (draft){.most = most > 0 && most < DRAFT_MAX ? (int)most : DRAFT_MAX,
                 .rule = !accept || !strcmp(accept, "same") ? GUESS_SAME
                         : !strcmp(accept, "exact")         ? GUESS_EXACT
                                                            : GUESS_POOL};
    d->who = mem_array((size_t)g->most, sizeof *d->who);
    if (!d->who) return err_memory(e, "guesses");
    if (text && !strcmp(text, draft_ngram.name)) d->kind = &draft_ngram;
    return OK;
}

void draft_close(draft *d)
{
    if (d->kind && d->kind->close) d->kind->close(d->self);
    mem_free(d->who);
    *d = (draft){0};
}

/* How many guesses of a session are worth their time in a step of `rows` rows, of which each gives a token. */
static int count_worth(const draft *d, const step_time *t, session *s, int rows, int most)
{
    const int64_t room = s->room - (s->n_ids - s->n_prompt) - 1;
    const double all = step_time_of(t, rows, s->n_ids), row = step_time_rows(t, 1, s->n_ids) + d->each / rows;
    const double share = !(all > 0)                ? ROW_COST / (1 + ROW_COST * rows)
                         : row / all > LEAST_SHARE ? row / all
                                                   : LEAST_SHARE;
    const double worth = rows * share,
                 hold = s->draft.known ? s->draft.acceptance : HOPE; /* a row is to give as many as others do */
    int n = 0;
    if (s->draft.backoff_left > 0) {
        s->draft.backoff_left--;
        return 0;
    }
    if (most > d->most) most = d->most;
    if (most > room) most = (int)room;
    for (double p = hold; n < most && p >= worth; p *= hold) n++;
    if (n) s->draft.backoff = s->draft.probes_left = 0;
    if (n || most < 1) return n;
    if (!s->draft.probes_left) { /* things may change */
        s->draft.backoff = !s->draft.backoff ? WAIT_MIN : s->draft.backoff < WAIT_MAX ? 2 * s->draft.backoff : WAIT_MAX;
        s->draft.probes_left = TRIES;
    }
    if (--s->draft.probes_left == 0) s->draft.backoff_left = s->draft.backoff;
    double p = hold * hold; /* many rows tell more of their cost than two, but guesses that fail tell nothing */
    for (n = 1; n < most && p >= 0.5; p *= hold) n++;
    return n;
}

void draft_guess(draft *d, const step_time *t, session **who, int n, int64_t room)
{
    int m = 0, most = 0;
    for (int i = 0; i < n; i++) {
        session *s = who[i];
        s->draft.n = count_worth(d, t, s, n, room < DRAFT_MAX ? (int)room : DRAFT_MAX);
        room -= s->draft.n;
        if (s->draft.n > most) most = s->draft.n;
        if (s->draft.n) who[m++] = s;
    }
    if (!m) return;
    const double began = clock_now();
    d->kind->guess(d->self, who, m);
    const double each = (clock_now() - began) / most;
    d->each += d->each > 0 ? LEARN * (each - d->each) : each;
}

void draft_learn(session *s, int held)
{
    for (int i = 0; i < s->draft.n && i <= held; i++) { /* those after the first that failed say nothing */
        s->draft.acceptance = s->draft.known ? s->draft.acceptance : HOPE;
        s->draft.acceptance += LEARN * ((i < held ? 0.98f : 0) - s->draft.acceptance);
        s->draft.known = true;
    }
    s->draft.n = 0;
}
