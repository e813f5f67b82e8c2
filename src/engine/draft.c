/* draft.c - see draft.h. */
#include "engine/draft_model.h"
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

/* Weight of the step before in the fit; steps that the first guess at a row's cost counts for. */
static const double FORGET = 0.98, PRIOR = 2, PRIOR_ROW = 0.1;
static const float LEARN = 0.15f,
                   HOPE = 0.7f;          /* weight of a new guess in what is known of a session; before the first */
enum { WAIT_MIN = 16, WAIT_MAX = 1024 }; /* steps without guesses, where they are not worth their time */

int draft_open(draft *d, engine *g, err *e)
{
    const char *text = g->asked.draft;
    const int64_t most = g->asked.draft_max;
    const char *accept = g->asked.draft_accept;
    *d = (draft){.most = most > 0 && most < DRAFT_MAX ? (int)most : DRAFT_MAX,
                 .rule = !accept || !strcmp(accept, "same") ? GUESS_SAME
                         : !strcmp(accept, "exact")         ? GUESS_EXACT
                                                            : GUESS_POOL};
    d->who = mem_array((size_t)g->info.max_batch, sizeof *d->who);
    if (!d->who) return err_set(e, ERR_MEMORY, "out of memory for guesses");
    if (text && !strcmp(text, draft_ngram.name)) d->from = &draft_ngram;
    if (!text || d->from) return OK;
    engine *small;
    int rc = draft_model_open(&small, g, e);
    if (!rc) d->from = &draft_model, d->self = small;
    return rc;
}

void draft_close(draft *d)
{
    if (d->from && d->from->close) d->from->close(d->self);
    mem_free(d->who);
    *d = (draft){0};
}

static void add_point(draft *d, double count, double rows, double seconds)
{
    d->n += count;
    d->x += count * rows;
    d->y += count * seconds;
    d->xx += count * rows * rows;
    d->xy += count * rows * seconds;
}

void draft_timed(draft *d, int rows, double seconds)
{
    if (!(seconds > 0)) return;
    if (d->n == 0) { /* a line through the first point, with a slope that invites to try */
        add_point(d, PRIOR, rows, seconds);
        add_point(d, PRIOR, rows + 8, seconds * (1 + 8 * PRIOR_ROW));
    }
    d->n *= FORGET, d->x *= FORGET, d->y *= FORGET, d->xx *= FORGET, d->xy *= FORGET;
    add_point(d, 1, rows, seconds);
}

static double row_seconds(const draft *d)
{
    const double spread = d->n * d->xx - d->x * d->x;
    return spread > 0 ? (d->n * d->xy - d->x * d->y) / spread : 0;
}

static double step_seconds(const draft *d, int rows)
{
    return d->n > 0 ? (d->y + row_seconds(d) * (d->n * rows - d->x)) / d->n : 0;
}

/* The part of a step's time that one more row adds. */
static double row_share(const draft *d, int rows)
{
    const double all = step_seconds(d, rows), share = all > 0 ? row_seconds(d) / all : 1;
    return d->n == 0 ? PRIOR_ROW / (1 + PRIOR_ROW * rows) : share > 0.005 ? share : 0.005;
}

/* How many guesses of a session are worth their time in a step of `rows` rows, of which each gives a token. */
static int count_worth(const draft *d, session *s, int rows, int most)
{
    const int64_t room = s->room - (s->n_ids - s->n_prompt) - 1;
    const double all = step_seconds(d, rows), share = row_share(d, rows) + (all > 0 ? d->each / rows / all : 0);
    const double worth = rows * share, hold = s->drafted ? s->holds : HOPE; /* a row is to give as many as others do */
    int n = 0;
    if (s->wait_draft > 0) {
        s->wait_draft--;
        return 0;
    }
    if (most > d->most) most = d->most;
    if (most > room) most = (int)room;
    for (double p = hold; n < most && p >= worth; p *= hold) n++;
    if (n) s->patience = 0;
    if (n || most < 1) return n;
    s->patience = s->patience ? 2 * s->patience : WAIT_MIN; /* things may change */
    if (s->patience > WAIT_MAX) s->patience = WAIT_MAX;
    s->wait_draft = s->patience;
    return 1;
}

void draft_guess(draft *d, session **who, int n, int64_t room)
{
    int m = 0, most = 0;
    for (int i = 0; i < n; i++) {
        session *s = who[i];
        s->n_draft = count_worth(d, s, n, room < DRAFT_MAX ? (int)room : DRAFT_MAX);
        room -= s->n_draft;
        if (s->n_draft > most) most = s->n_draft;
        if (s->n_draft) who[m++] = s;
    }
    if (!m) return;
    const double began = clock_now();
    d->from->guess(d->self, who, m);
    const double each = (clock_now() - began) / most;
    d->each += d->each > 0 ? LEARN * (each - d->each) : each;
}

void draft_learn(session *s, int held)
{
    for (int i = 0; i < s->n_draft && i <= held; i++) { /* those after the first that failed say nothing */
        s->holds = s->drafted ? s->holds : HOPE;
        s->holds += LEARN * ((i < held ? 0.98f : 0) - s->holds);
        s->drafted = true;
    }
    s->n_draft = 0;
}
