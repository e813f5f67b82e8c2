/* schedule.c - who takes part in the next step.
 *
 * First come, first served. A session is admitted when one of max_batch places is free and all the pages it may ever
 * hold can be reserved, so nothing admitted is ever evicted, except paused sessions: they give up their place at once,
 * and their pages when another session needs them. Their tokens stay; the cache is recomputed later, to the same bits.
 * A query with beams is several sessions: their group is asked of beam.c, which in turn ends queries here. */
#include "engine/beam.h"
#include "engine/draft_model.h"
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/mem.h"

/* ---- pages of a session */

static bool take_slots(engine *g, session *s)
{
    if (!g->slots.total) return true;
    if (!pages_reserve(&g->slots, 2)) return false;
    for (int i = 0; i < 2; i++) s->slot[i] = pages_take(&g->slots);
    s->slot_now = s->slot[0];
    return true;
}

static void give_slots(engine *g, const session *s)
{
    if (!g->slots.total) return;
    for (int i = 0; i < 2; i++) pages_give(&g->slots, s->slot[i]);
    pages_unreserve(&g->slots, 2);
}

/* The reservation of one session, without its beams. */
static int admit_one(engine *g, session *s, err *e)
{
    const program *p = g->prog;
    if (s->admitted) return 0;
    if (!take_slots(g, s)) return ERR_BUSY;
    for (uint32_t i = 0; i < p->n_group; i++) {
        if (s->borrows && p->group_axis[i] == AXIS_ENC) continue;
        int32_t n = p->group_axis[i] == AXIS_ENC
                        ? pages_needed((int64_t)s->q.n_enc, 0, 0)
                        : pages_needed(s->n_prompt + s->room, p->group_window[i], g->chunk * g->steps.in_flight);
        if (pages_reserve(&g->pages[i], n)) {
            s->reserved[i] = n;
            continue;
        }
        while (i-- > 0) pages_unreserve(&g->pages[i], s->reserved[i]);
        give_slots(g, s);
        return ERR_BUSY;
    }
    s->admitted = true;
    for (uint32_t r = 0; r < p->n_rope; r++) s->variant[r] = -1;
    for (uint32_t r = 0; r < p->n_rope; r++) {
        s->variant[r] = rope_admit(&p->ropes[r], (int)(s->n_prompt + s->room), e);
        if (s->variant[r] >= 0) continue;
        int rc = s->variant[r];
        session_drop_cache(g, s);
        return rc;
    }
    session_join_names(g, s);
    return 0;
}

int session_admit(engine *g, session *s, err *e)
{
    int rc = OK;
    for (int i = 0; i < beam_count(s) && !rc; i++) rc = admit_one(g, beam_member(s, i), e);
    if (rc) session_drop_cache(g, s);
    return rc;
}

void session_pages(engine *g, session *s, int64_t to)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        bool enc = g->prog->group_axis[i] == AXIS_ENC;
        if (enc && s->encoded) continue;
        for (int64_t k = enc ? 0 : s->n_sent / PAGE_TOKENS; k * PAGE_TOKENS < (enc ? (int64_t)s->q.n_enc : to); k++)
            if (s->page[i][k] < 0) s->page[i][k] = tree_take(&g->names, (int)i);
    }
}

void session_give_page(engine *g, uint32_t group, int32_t *page)
{
    steps_forget_page(&g->steps, (int)group, *page);
    pages_give(&g->pages[group], *page);
    *page = -1;
}

void session_advance(engine *g, session *s, int64_t n)
{
    s->n_past += n;
    if (s->n_done < s->n_past) s->n_done = s->n_past;
    session_name_pages(g, s);
    session_leave_windows(g, s);
}

void session_leave_windows(engine *g, session *s)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        if (g->prog->group_axis[i] == AXIS_ENC) continue;
        int32_t window = g->prog->group_window[i];
        int64_t seen = s->n_past - window + 1; /* first key that the next token sees */
        for (; window && (s->first[i] + 1) * PAGE_TOKENS <= seen; s->first[i]++)
            if (s->page[i][s->first[i]] >= 0) session_give_page(g, i, &s->page[i][s->first[i]]);
    }
}

static void drop_one(engine *g, session *s)
{
    const program *p = g->prog;
    if (!s->admitted) return;
    session_leave_names(g, s);
    for (uint32_t i = 0; i < p->n_group; i++) {
        bool own = !s->borrows || p->group_axis[i] != AXIS_ENC;
        for (int64_t k = s->n_page[i]; k-- > 0;) { /* of those that are kept the last goes first */
            if (own && s->page[i][k] >= 0) session_give_page(g, i, &s->page[i][k]);
            s->page[i][k] = -1;
        }
        s->first[i] = 0;
        pages_unreserve(&g->pages[i], s->reserved[i]);
        s->reserved[i] = 0;
    }
    give_slots(g, s);
    for (uint32_t r = 0; r < p->n_rope; r++) rope_release(&p->ropes[r], s->variant[r]);
    s->n_past = s->n_sent = 0;
    s->encoded = s->borrows || s->q.n_enc == 0;
    s->admitted = false;
}

void session_drop_cache(engine *g, session *s)
{
    for (int i = beam_count(s) - 1; i >= 0; i--) drop_one(g, beam_member(s, i));
}

/* ---- lists */

static void insert_by_id(session **list, session *s)
{
    while (*list && (*list)->id < s->id) list = &(*list)->next;
    s->next = *list;
    *list = s;
}

static bool unlink_from(session **list, const session *s)
{
    while (*list && *list != s) list = &(*list)->next;
    if (!*list) return false;
    *list = s->next;
    return true;
}

void session_end(engine *g, session *s)
{
    bool was_running = unlink_from(&g->running, s), was_waiting = !was_running && unlink_from(&g->waiting, s);
    if (was_running) g->n_running -= beam_count(s);
    pthread_mutex_lock(&g->lock);
    g->n_queued -= was_waiting;
    session **at = &g->all;
    while (*at && *at != s) at = &(*at)->all_next;
    if (*at) *at = s->all_next;
    pthread_mutex_unlock(&g->lock);
    s->gone = true;
    s->next = g->leaving;
    g->leaving = s;
}

/* Steps under way with rows of the session or of its beams. */
static int in_flight(session *s)
{
    int sum = 0;
    for (int i = 0; i < beam_count(s); i++) sum += beam_member(s, i)->in_flight;
    return sum;
}

void sessions_free_gone(engine *g)
{
    for (session **at = &g->leaving; *at;) {
        session *s = *at;
        if (in_flight(s)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        session_drop_cache(g, s);
        draft_twin_drop(g->guesses.self, s);
        beam_free(s->beams);
        session_free(s);
    }
}

void session_finish(engine *g, session *s, finish_reason why, const char *error)
{
    token_event ev = {.query_id = s->id, .token = -1, .index = s->n_ids - s->n_prompt, .finish = why, .error = error};
    ev.cached_tokens = s->cached;
    if (s->q.on_token) s->q.on_token(s->q.ctx, &ev);
    session_end(g, s);
}

/* ---- admission */

/* New sessions join the queue, paused ones leave their place, cancelled ones end. */
void schedule_accept(engine *g)
{
    session *cancelled = NULL;
    pthread_mutex_lock(&g->lock);
    for (session *s = g->inbox, *next; s; s = next) {
        next = s->next;
        insert_by_id(&g->waiting, s);
    }
    g->inbox = NULL;
    for (session *s = g->running, *next; s; s = next) {
        next = s->next;
        if (!s->paused || s->cancelled) continue;
        unlink_from(&g->running, s);
        g->n_running -= beam_count(s);
        session_give_claims(g, s);
        insert_by_id(&g->waiting, s);
        g->n_queued++;
    }
    for (session **list = &g->waiting; list; list = list == &g->waiting ? &g->running : NULL)
        for (session **at = list; *at;) {
            session *s = *at;
            if (!s->cancelled) {
                at = &s->next;
                continue;
            }
            *at = s->next;
            if (list == &g->running) g->n_running -= beam_count(s);
            else g->n_queued--;
            s->next = cancelled;
            cancelled = s;
        }
    pthread_mutex_unlock(&g->lock);
    while (cancelled) { /* events without the lock */
        session *s = cancelled;
        cancelled = s->next;
        session_finish(g, s, FINISH_CANCELLED, NULL);
    }
}

/* Takes the cache of the youngest paused session; false when none has one. */
static bool evict_paused(engine *g)
{
    session *young = NULL;
    pthread_mutex_lock(&g->lock);
    for (session *s = g->waiting; s; s = s->next)
        if (s->admitted && s->paused && !s->in_flight && !s->beams) young = s; /* beams would have to start again */
    pthread_mutex_unlock(&g->lock);
    if (!young) return false;
    session_drop_cache(g, young);
    return true;
}

void schedule_admit(engine *g)
{
    schedule_accept(g);
    for (session *s = g->waiting, *next; s && g->n_running < g->info.max_batch; s = next) {
        next = s->next;
        pthread_mutex_lock(&g->lock);
        bool paused = s->paused;
        pthread_mutex_unlock(&g->lock);
        if (paused) continue;
        if (g->n_running + beam_count(s) > g->info.max_batch) return;
        err e = {0};
        int rc;
        while ((rc = session_admit(g, s, &e)) == ERR_BUSY && evict_paused(g)) {}
        if (rc == ERR_BUSY) return; /* nobody overtakes */
        if (rc) {
            session_finish(g, s, FINISH_ERROR, e.msg);
            continue;
        }
        unlink_from(&g->waiting, s);
        insert_by_id(&g->running, s);
        g->n_running += beam_count(s);
        if (!(s->waited > 0)) s->waited = clock_now() - s->added;
        pthread_mutex_lock(&g->lock);
        g->n_queued--;
        pthread_mutex_unlock(&g->lock);
    }
}

void schedule_requeue(engine *g)
{
    for (session *s = g->waiting; s; s = s->next) session_drop_cache(g, s); /* paused ones */
    while (g->running) {
        session *s = g->running;
        g->running = s->next;
        g->n_running -= beam_count(s);
        session_drop_cache(g, s);
        if (s->beams) beam_restart(s->beams);
        insert_by_id(&g->waiting, s);
        pthread_mutex_lock(&g->lock);
        g->n_queued++;
        pthread_mutex_unlock(&g->lock);
    }
    g->steps.n_copy = 0;
    tree_clear(&g->names);
}

/* Whether the tokens of the session must all be in one step. */
static bool undivided(const engine *g, const session *s) { return g->prog->needs_whole_sequence || s->q.pooled; }

/* A step of fewer sequences takes about as long: it is bound by reading weights. */
enum { WORTH = 8 };

/* Sequences that generate in one step. Where stages are under way at once, they are divided among as many steps, unless
 * these would become so small that they take as long as all at once. */
static int step_sequences(engine *g)
{
    const int stages = plan_groups(g->placed), steps = g->steps.in_flight < stages ? g->steps.in_flight : stages;
    int ready = 0, parts;
    if (g->step_sequences || steps < 2) return g->step_sequences ? g->step_sequences : INT32_MAX;
    for (session *of = g->running; of; of = of->next)
        for (int i = 0; i < beam_count(of); i++) {
            const session *s = beam_member(of, i);
            ready += s->n_ids - s->n_past == 1;
        }
    parts = ready / WORTH;
    parts = parts < 1 ? 1 : parts > steps ? steps : parts;
    return (ready + parts - 1) / parts;
}

/* Whether the session has one token left, and so gets one from the next step. */
static bool generates(const engine *g, const session *s) { return s->n_ids - s->n_sent == 1 && !undivided(g, s); }

void schedule_guess(engine *g)
{
    int n = 0;
    for (session *s = g->running; s && g->guesses.from; s = s->next)
        if (!s->beams && generates(g, s)) g->guesses.who[n++] = s;
    if (n) draft_guess(&g->guesses, g->guesses.who, n, g->chunk / 2);
}

void schedule_fill(engine *g, batch *to)
{
    int64_t left = g->chunk, free_rows = g->chunk;
    int apart = g->n_running; /* sessions that are not in the step yet */
    int most = step_sequences(g);
    for (int prompts = 0; prompts < 2; prompts++) {
        if (prompts && to->st.n_seq && left > MIXED_ROWS) left = MIXED_ROWS;
        for (session *of = g->running; of; of = of->next)
            for (int i = 0; i < beam_count(of); i++) {
                session *s = beam_member(of, i);
                int64_t rest = s->n_ids - s->n_sent;
                bool whole = undivided(g, s);
                if (rest < 1 || !beam_ready(s) || (rest > 1 || whole) != prompts) continue;
                if (!prompts && to->st.n_seq >= most) continue;
                if (prompts && !session_follow(g, s)) continue;
                rest = s->n_ids - s->n_sent;
                if (prompts && (whole ? rest > free_rows : left <= 0)) continue;
                int n = batch_add(to, s, (int)(prompts && !whole && rest > left ? left : rest + s->n_draft), --apart);
                if (n > 0) session_pages(g, s, s->n_sent + n);
                if (!prompts) s->n_draft = n > 1 ? n - 1 : 0, left -= s->n_draft;
                if (prompts) left -= n, free_rows -= n;
            }
    }
}
