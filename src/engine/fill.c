/* fill.c - what is computed in the next step.
 *
 * Sessions with one token left come first: each has a row. Prompts fill the rest, in a step without such sessions to
 * --chunk rows, or fewer where that lets devices work that would wait for others. A mixed step delays the sessions that
 * generate, so prompts get a share of its predicted time there, and as much as nobody notices. In a burst every request
 * gets its first token before any finishes: short prompts get the extra time for prefill, and sessions that generate
 * skip steps for it. The shortest prompt gets up to half of the time, the oldest the rest, then the others in order. */
#include "engine/beam.h"
#include "engine/engine_state.h"
#include "plan/remote.h"

#include <math.h>

/* Whether the tokens of the session must all be in one step. */
static bool undivided(const engine *g, const session *s) { return g->prog->needs_whole_sequence || s->q.pooled; }

/* A step of fewer sequences takes about as long: it is bound by reading weights. */
enum { WORTH = 8 };

/* Sequences that generate in one step. Where stages are under way at once, they are divided among as many steps, unless
 * these would become so small that they take as long as all at once. */
static int step_sequences(const engine *g, int n)
{
    const int stages = plan_groups(g->plan), steps = g->steps.in_flight < stages ? g->steps.in_flight : stages;
    int ready = 0, parts;
    if (g->step_sequences || steps < 2) return g->step_sequences ? g->step_sequences : INT32_MAX;
    for (int i = 0; i < n; i++) ready += g->ready[i]->n_ids - g->ready[i]->text.n_past == 1;
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

static int64_t rest_of(const session *s) { return s->n_ids - s->text.n_sent; }

/* Whether it could have rows of this kind now: the last token, or more. */
static bool is_ready(const engine *g, session *s, bool prompt)
{
    const session *first = beam_member(s, 0);
    const int64_t rest = rest_of(s);
    return first->placed && rest >= 1 && beam_ready(s) && (rest > 1 || undivided(g, s)) == prompt;
}

void schedule_guess(engine *g)
{
    const int n = g->guesses.kind ? list_ready(g) : 0;
    int m = 0;
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (s->beams || s->owns_prompt || s->in_flight || !is_ready(g, s, false)) continue;
        if (!g->kv.slots.total || g->kv.slot_rows || text_owns_slot(&s->text, s->text.slot_now))
            g->guesses.who[m++] = s; /* it may go back there, where slots keep no rows apart */
    }
    if (m) draft_guess(&g->guesses, &g->step_times, g->guesses.who, m, g->chunk / 2);
}

/* Adds at most `rows` rows, of which there are that many; undivided ones all or none. Returns their number. */
static int add_rows(engine *g, batch *to, session *s, int64_t rows, int keep)
{
    session *first = beam_member(s, 0);
    rows = text_cut_rows(&g->kv, &s->text, rows, s->draft.n > 0);
    const int64_t least = s->text.n_sent + (undivided(g, s) ? rows : 1);
    int64_t upto;
    while ((upto = text_take_pages(&g->kv, &s->text, s->text.n_sent + rows)) < least)
        if (!schedule_make_room(g, first)) return 0;
    const int n = batch_add(to, s, (int)(upto - s->text.n_sent), keep);
    if (n) first->filled = g->fill;
    if (n) text_plan_snapshot(&g->kv, &s->text, s->text.n_sent + n);
    return n;
}

/* A prompt that one step can read, no more: for longer ones nobody waits. */
static bool is_brief(const engine *g, session *s) { return is_ready(g, s, true) && s->n_prompt <= g->chunk; }

/* Seconds that brief prompts must still have before the next token of those that generate, if of requests that arrive
 * together none is to end before all have begun: the time of their prompts, over the fewest tokens that one has left
 * before its last few, which leave readers time to see what came before. */
static double seconds_owed(const engine *g, int n)
{
    enum { LAST = 3 };
    const double TOGETHER = 0.25, PAUSE = 0.5; /* seconds: between arrivals; between two tokens, at most, for that */
    const double had = g->prompt_seconds;
    double oldest = INFINITY, newest = 0, sum = 0;
    int64_t fewest = INT64_MAX;
    for (int i = 0; i < n; i++)
        if (is_brief(g, g->ready[i])) oldest = fmin(oldest, g->ready[i]->added);
    for (int i = 0; i < n; i++) {
        const session *s = g->ready[i];
        if (!s->begun || s->begun + TOGETHER < oldest) continue;
        const int64_t left = schedule_expect(g, s) - s->n_ids;
        if (left < fewest) fewest = left;
        newest = fmax(newest, s->begun);
    }
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (s->added < newest + TOGETHER && is_brief(g, s))
            sum += step_time_rows(&g->step_times, rest_of(s), s->text.n_sent);
    }
    if (!(sum > 0)) return 0;
    return (fewest <= LAST ? PAUSE : fmin((had + sum) / (double)(fewest - LAST), PAUSE)) - had;
}

/* Steps that devices can work on at once: each group on another, and on the next while its ranks exchange rows. */
static int steps_at_once(const engine *g)
{
    const int most = plan_groups(g->plan) * plan_lanes(g->plan);
    return g->steps.in_flight < most ? g->steps.in_flight : most;
}

/* Rows of prompts in a step of these alone: as many steps as devices can work on, but none so small that it takes about
 * as long as a larger one. */
static int64_t prompt_rows(engine *g, int n)
{
    enum { LEAST = 64 };
    const int64_t idle = steps_at_once(g) - steps_under_way(&g->steps);
    int64_t rows = 0;
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (!is_ready(g, s, true)) continue;
        if (undivided(g, s)) return g->chunk;
        rows += rest_of(s);
    }
    if (idle > 1) rows = (rows + idle - 1) / idle;
    if (rows < LEAST) rows = LEAST;
    return rows < g->chunk ? rows : g->chunk;
}

/* What is left of a step for prompts. */
typedef struct space {
    int64_t rows;
    double seconds; /* INFINITY: no matter */
} space;

/* owed: see seconds_owed. */
static space space_for_prompts(engine *g, const batch *b, int n, double owed)
{
    enum { UNKNOWN = 32 };       /* rows, before times are known */
    const double UNSEEN = 0.010; /* seconds that nobody notices between two tokens */
    const double share = g->options.prefill_share > 0 ? g->options.prefill_share : 0.6;
    space left = {g->chunk - (b->st.n[AXIS_TOK] - b->st.n_seq), INFINITY}; /* guesses are rows of it */
    if (!b->st.n_seq) return (space){prompt_rows(g, n), INFINITY};
    const double others = step_time_predict(&g->step_times, &b->st);
    if (others > 0) left.seconds = fmax(others * share / (1 - share), fmax(owed, UNSEEN));
    else if (left.rows > UNKNOWN) left.rows = UNKNOWN;
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
        const int64_t fit = step_time_fit(&g->step_times, seconds, s->text.n_sent, rows);
        rows = fit >= LEAST || fit >= rows ? fit : left->seconds > 0 && LEAST < rows ? LEAST : rows;
    }
    if (rows < 1 || rows > left->rows || (!whole && left->seconds <= 0)) return;
    const int64_t depth = s->text.n_sent;
    const int added = add_rows(g, to, s, rows, keep);
    const double took = step_time_rows(&g->step_times, added, depth);
    left->rows -= added;
    left->seconds -= took;
    g->prompt_seconds += took;
}

/* The prompt with the fewest rows left, of those that can go on now; NULL: there is one at most. */
static session *shortest_prompt(engine *g, int n)
{
    session *least = NULL;
    int ready = 0;
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (!is_ready(g, s, true) || undivided(g, s) || !session_follow(g, s)) continue;
        ready++;
        if (!least || rest_of(s) < rest_of(least)) least = s;
    }
    return ready > 1 ? least : NULL;
}

/* Adds a row, and those of its guesses, of up to `most` sessions with one token left. */
static void add_tokens(engine *g, batch *to, int n, int most, int *apart)
{
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (!is_ready(g, s, false)) continue;
        int added = 0;
        if (to->st.n_seq < most) added = add_rows(g, to, s, 1 + s->draft.n, --*apart);
        if (added || !s->in_flight) s->draft.n = added > 1 ? added - 1 : 0;
    }
    if (to->st.n_seq) g->prompt_seconds = 0;
}

static void add_prompts(engine *g, batch *to, int n, space left, int *apart)
{
    session *shortest = shortest_prompt(g, n);
    if (shortest) {
        space half = {left.rows - left.rows / 2, left.seconds};
        add_prompt(g, to, shortest, &half, left.seconds / 2, --*apart);
        left.rows += half.rows - (left.rows - left.rows / 2);
        left.seconds = half.seconds;
    }
    for (int i = 0; i < n; i++) {
        session *s = g->ready[i];
        if (s == shortest || !is_ready(g, s, true) || !session_follow(g, s)) continue;
        add_prompt(g, to, s, &left, left.seconds, --*apart);
    }
}

void schedule_fill(engine *g, batch *to)
{
    const int n = list_ready(g), most = step_sequences(g, n);
    int apart = n; /* sessions that are not in the step yet */
    const double owed = seconds_owed(g, n);
    const bool wait = owed > step_time_rows(&g->step_times, g->chunk, 0); /* more than a step holds */
    g->fill++;
    add_tokens(g, to, n, wait ? 0 : most, &apart);
    add_prompts(g, to, n, space_for_prompts(g, to, n, owed), &apart);
    if (wait && !to->st.n_seq) add_tokens(g, to, n, most, &apart);
}
