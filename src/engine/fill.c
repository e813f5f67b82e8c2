/* fill.c - what is computed in the next step. */
#include "engine/beam.h"
#include "engine/engine_state.h"

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
        if (!s->beams && !s->leads && !s->in_flight && is_ready(g, s, false)) g->guesses.who[m++] = s;
    }
    if (m) draft_guess(&g->guesses, g->guesses.who, m, g->chunk / 2);
}

/* Adds at most `rows` rows, of which there are that many; undivided ones all or none. Returns their number. */
static int add_rows(engine *g, batch *to, session *s, int64_t rows, int keep)
{
    session *first = beam_member(s, 0);
    const int64_t least = s->n_sent + (undivided(g, s) ? rows : 1);
    int64_t upto;
    while ((upto = session_take_pages(g, s, s->n_sent + rows)) < least)
        if (!schedule_make_room(g, first)) return 0;
    const int n = batch_add(to, s, (int)(upto - s->n_sent), keep);
    if (n) first->filled = g->fill;
    return n;
}

void schedule_fill(engine *g, batch *to)
{
    const int n = list_ready(g), most = step_sequences(g, n);
    int64_t left = g->chunk, free_rows = g->chunk;
    int apart = n; /* sessions that are not in the step yet */
    g->fill++;
    for (int prompts = 0; prompts < 2; prompts++) {
        if (prompts && to->st.n_seq && left > MIXED_ROWS) left = MIXED_ROWS;
        for (int i = 0; i < n; i++) {
            session *s = g->ready[i];
            if (!is_ready(g, s, prompts) || (prompts && !session_follow(g, s))) continue;
            const int64_t rest = rest_of(s);
            const bool whole = undivided(g, s);
            if (!prompts && to->st.n_seq >= most) {
                if (!s->in_flight) s->n_draft = 0;
                continue;
            }
            if (prompts && (whole ? rest > free_rows : left <= 0)) continue;
            const int added = add_rows(g, to, s, prompts && !whole && rest > left ? left : rest + s->n_draft, --apart);
            if (prompts) left -= added, free_rows -= added;
            else left -= s->n_draft = added > 1 ? added - 1 : 0;
        }
    }
}
