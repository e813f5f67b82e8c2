/* draft.c - see draft.h. */
#include "engine/draft.h"

#include <math.h>
#include <string.h>

/* Weight of the step before in the fit; steps that the first guess at a row's cost counts for. */
static const double FORGET = 0.98, PRIOR = 2, PRIOR_ROW = 0.1;
static const float LEARN = 0.15f,
                   HOPE = 0.7f; /* weight of a new guess in what is known of a session; before the first */
enum { TRY_AGAIN = 24 };        /* steps without guesses, where they did not hold */

int draft_open(draft *d, const char *text, int64_t most, err *e)
{
    *d = (draft){.most = most > 0 && most < DRAFT_MAX ? (int)most : DRAFT_MAX};
    if (!text) return OK;
    if (strcmp(text, draft_ngram.name)) return err_set(e, ERR_USAGE, "--draft %s: \"ngram\" is expected", text);
    d->from = &draft_ngram;
    return OK;
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

/* The part of a step's time that one more row adds. */
static double row_share(const draft *d, int rows)
{
    const double spread = d->n * d->xx - d->x * d->x;
    if (d->n == 0 || spread <= 1e-9 * d->n * d->xx) return PRIOR_ROW / (1 + PRIOR_ROW * rows);
    const double row = (d->n * d->xy - d->x * d->y) / spread, all = (d->y + row * (d->n * rows - d->x)) / d->n;
    const double share = all > 0 ? row / all : 1;
    return share > 0.005 ? share : 0.005;
}

void draft_guess(const draft *d, session *s, int others, int most)
{
    const int64_t room = s->room - (s->n_ids - s->n_prompt) - 1;
    s->n_draft = 0;
    if (!d->from || s->wait_draft-- > 0) return;
    s->wait_draft = 0;
    if (most > d->most) most = d->most;
    if (most > room) most = (int)room;
    /* A step gives one token for each sequence; a row is worth its time when it is as likely to give one more. */
    const double rows = 1 + others, worth = rows * row_share(d, (int)rows), hold = s->drafted ? s->holds : HOPE;
    int n = 0;
    for (double p = hold; n < most && p >= worth; p *= hold) n++;
    if (!n && s->drafted && most > 0) { /* things may change */
        n = 1;
        s->wait_draft = TRY_AGAIN;
    }
    if (n > 0) s->n_draft = d->from->guess(s->ids, s->n_ids, s->ids + s->n_ids, n);
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
