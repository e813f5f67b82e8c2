/* fill.c - what is computed in the next step.
 *
 * Sessions with one token left come first: each has a row. Prompts fill the rest, in a step without such sessions to
 * --chunk rows. A mixed step delays the sessions that generate, so prompts get a share of its predicted time there, and
 * more, up to 30 ms, while prompts outnumber these sessions. The shortest prompt gets up to half of that time, the
 * oldest the rest, then the others in order. */
#include "engine/beam.h"
#include "engine/engine_state.h"

#include <math.h>

/* Whether the tokens of the session must all be in one step. */
static bool undivided(const engine *g, const session *s) { return g->prog->needs_whole_sequence || s->q.pooled; }

/* A step of fewer sequences takes about as long: it is bound by reading weights. */
enum { WORTH = 8 };

/* Sequences that generate in one step. Where stages are under way at once, they are divided among as many steps, unless
 * these would become so small that they take as long as all at once. */
static int step_sequences(const engine *g, int n)
{
    const int stages = plan_groups(g->placed), steps = g->steps.in_flight < stages ? g->steps.in_flight : stages;
    int ready = 0, parts;
    if (g->step_sequences || steps < 2) return g->step_sequences ? g->step_sequences : INT32_MAX;
    for (int i = 0; i < n; i++) ready += g->ready[i]->n_ids - g->ready[i]->n_past == 1;
    parts = ready / WORTH;
    parts = parts < 1 ? 1 : parts > steps ? steps : parts;
    return (ready + parts - 1) / parts;
}

/* Sessions that run, and their beams, in order. */
static int list_ready(engine *g)
{
    int n = 0;
    for (session *of = g->running; of; of = of->next)
        for (int i = 0; i < beam_count(of); i++) g->ready[n++] = beam_member(of, i);
    return n;
}

static int64_t rest_of(const session *s) { return s->n_ids - s->n_sent; }

/* Whether it could have rows of this kind now: the last token, or more. */
static bool is_ready(const engine *g, session *s, bool prompt)
{
    const session *first = beam_member(s, 0);
    const int64_t rest = rest_of(s);
    return first->placed && rest >= 1 && beam_ready(s) && (rest > 1 || undivided(g, s)) == prompt;
}

void schedule_guess(engine *g)
{
    const int n = g->guesses.from ? list_ready(g) : 0;
    int m = 0;
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (s->beams || s->leads || s->in_flight || !is_ready(g, s, false)) continue;
        if (!g->slots.total || session_owns_slot(s, s->slot_now)) g->guesses.who[m++] = s; /* it may go back there */
    }
    if (m) draft_guess(&g->guesses, &g->times, g->guesses.who, m, g->chunk / 2);
}

/* Adds at most `rows` rows, of which there are that many; undivided ones all or none. Returns their number. */
static int add_rows(engine *g, batch *to, session *s, int64_t rows, int keep)
{
    session *first = beam_member(s, 0);
    rows = session_cut_rows(g, s, rows);
    const int64_t least = s->n_sent + (undivided(g, s) ? rows : 1);
    int64_t upto;
    while ((upto = session_take_pages(g, s, s->n_sent + rows)) < least)
        if (!schedule_make_room(g, first)) return 0;
    const int n = batch_add(to, s, (int)(upto - s->n_sent), keep);
    if (n) first->filled = g->fill;
    if (n) session_plan_snapshot(g, s, s->n_sent + n);
    return n;
}

/* What is left of a step for prompts. */
typedef struct space {
    int64_t rows;
    double seconds; /* INFINITY: no matter */
} space;

/* prompts: how many there are. Where they outnumber the others, each gets as much time as one of these: of many
 * requests that arrive together the first would else be over before the last begins. */
static space space_for_prompts(const engine *g, const batch *b, int prompts)
{
    enum { UNKNOWN = 32 };      /* rows, before times are known */
    const double CROWD = 0.030; /* seconds, at most, for that */
    const double share = g->asked.prefill_share > 0 ? g->asked.prefill_share : 0.6;
    space left = {g->chunk - (b->st.n[AXIS_TOK] - b->st.n_seq), INFINITY}; /* guesses are rows of it */
    if (!b->st.n_seq) return left;
    const double others = step_time_predict(&g->times, &b->st);
    left.seconds = fmax(others * share / (1 - share), fmin(others * prompts / b->st.n_seq, CROWD));
    if (!(left.seconds > 0) && left.rows > UNKNOWN) left.rows = UNKNOWN;
    if (!(left.seconds > 0)) left.seconds = INFINITY;
    return left;
}

/* Adds rows of a prompt, for at most so many seconds; a few at least in every step. */
static void add_prompt(engine *g, batch *to, session *s, space *left, double seconds, int keep)
{
    enum { LEAST = 4 };
    const bool whole = undivided(g, s);
    int64_t rows = rest_of(s);
    if (rows > left->rows && !whole) rows = left->rows;
    if (!whole && seconds < INFINITY) {
        const int64_t fit = step_time_fit(&g->times, seconds, s->n_sent, rows);
        rows = fit >= LEAST || fit >= rows ? fit : left->seconds > 0 && LEAST < rows ? LEAST : rows;
    }
    if (rows < 1 || rows > left->rows || (!whole && left->seconds <= 0)) return;
    const int64_t depth = s->n_sent;
    const int added = add_rows(g, to, s, rows, keep);
    left->rows -= added;
    left->seconds -= step_time_rows(&g->times, added, depth);
}

/* The prompt with the fewest rows left, of those that can go on now; NULL: there is one at most. *ready: how many. */
static session *shortest_prompt(engine *g, int n, int *ready)
{
    session *least = NULL;
    *ready = 0;
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (!is_ready(g, s, true) || undivided(g, s) || !session_follow(g, s)) continue;
        ++*ready;
        if (!least || rest_of(s) < rest_of(least)) least = s;
    }
    return *ready > 1 ? least : NULL;
}

void schedule_fill(engine *g, batch *to)
{
    const int n = list_ready(g), most = step_sequences(g, n);
    int apart = n; /* sessions that are not in the step yet */
    g->fill++;
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (!is_ready(g, s, false)) continue;
        int added = 0;
        if (to->st.n_seq < most) added = add_rows(g, to, s, 1 + s->n_draft, --apart);
        if (added || !s->in_flight) s->n_draft = added > 1 ? added - 1 : 0;
    }
    int prompts;
    session *shortest = shortest_prompt(g, n, &prompts);
    space left = space_for_prompts(g, to, prompts);
    if (shortest) {
        space half = {left.rows - left.rows / 2, left.seconds};
        add_prompt(g, to, shortest, &half, left.seconds / 2, --apart);
        left.rows += half.rows - (left.rows - left.rows / 2);
        left.seconds = half.seconds;
    }
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (s == shortest || !is_ready(g, s, true) || !session_follow(g, s)) continue;
        add_prompt(g, to, s, &left, left.seconds, --apart);
    }
}
