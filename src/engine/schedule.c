/* schedule.c - which sessions have a place, and who gives its own up.
 *
 * Order is by priority, then by age; of those that wait, by priority, then whose owner has the fewest places, then
 * whose request has, then by age. Where all places are taken, a session replaces the last session of another owner (or
 * request) if that owner still has at least as many places afterwards as the session's own: preemption. Nothing is
 * reserved: a session gets a place when pages are there for what it, and those before it, will probably hold at any
 * time. When pages run out all the same, the last in order gives its own up. Its tokens stay, and are computed again
 * later, to the same bits. Those that wait and still have a cache (readers that are slow, those whose place was taken)
 * give it up first.
 *
 * A query with beams is several sessions: their group is asked of beam.c, which in turn ends queries here. */
#include "engine/beam.h"
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>

enum { ROOM_TIMES = 32 }; /* stretches of time for which pages are counted */

/* ---- lists */

static void insert_in_order(session **list, session *s)
{
    while (*list && session_is_before(*list, s)) list = &(*list)->next;
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

static void count_turn(engine *g, const session *s, int n)
{
    g->n_running += n;
    g->shares.owner[s->q.owner % SHARE_COUNTS] += (uint16_t)n;
    g->shares.request[s->q.request % SHARE_COUNTS] += (uint16_t)n;
}

static void take_place(engine *g, session *s)
{
    unlink_from(&g->waiting, s);
    insert_in_order(&g->running, s);
    count_turn(g, s, beam_count(s));
    s->placed = true;
}

/* The session leaves its place, and keeps what it holds until others need it. */
static void leave_place(engine *g, session *s)
{
    unlink_from(&g->running, s);
    count_turn(g, s, -beam_count(s));
    s->placed = false;
    for (int i = 0; i < beam_count(s); i++) prefix_release(&g->kv, &beam_member(s, i)->text);
    insert_in_order(&g->waiting, s);
}

static void count_queued(engine *g, int n)
{
    pthread_mutex_lock(&g->lock);
    g->n_queued += n;
    pthread_mutex_unlock(&g->lock);
}

/* How much of its room a text has used. */
static void learn_room(engine *g, const session *s)
{
    const int64_t made = s->n_ids - s->n_prompt;
    if (s->room && made) g->used_room += ((double)made / (double)s->room - g->used_room) / 16;
}

void session_end(engine *g, session *s)
{
    if (s->placed) count_turn(g, s, -beam_count(s));
    bool was_waiting = !s->placed && unlink_from(&g->waiting, s);
    if (s->placed) unlink_from(&g->running, s);
    s->placed = false;
    learn_room(g, s);
    choices_part(g, s);
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
        if (g->guesses.kind && g->guesses.kind->drop) g->guesses.kind->drop(g->guesses.self, s);
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

void session_end_not_finite(engine *g, session *s, const char *what)
{
    char why[100];
    snprintf(why, sizeof why, "the model computed no finite %s for this text", what);
    session_finish(g, s, FINISH_ERROR, why);
}

/* New sessions join the queue, paused ones leave their place, cancelled ones end. */
void schedule_accept(engine *g)
{
    session *cancelled = NULL, *oldest = NULL;
    pthread_mutex_lock(&g->lock);
    for (session *s = g->inbox, *next; s; s = next) {
        next = s->next;
        s->next = oldest;
        oldest = s;
    }
    g->inbox = NULL;
    for (session *s = oldest, *next; s; s = next) {
        next = s->next;
        choices_join(g, s);
        insert_in_order(&g->waiting, s);
    }
    for (session *s = g->running, *next; s; s = next) {
        next = s->next;
        if (!s->paused || s->cancelled) continue;
        leave_place(g, s);
        g->n_queued++;
    }
    for (session **list = &g->waiting; list; list = list == &g->waiting ? &g->running : NULL)
        for (session **at = list; *at;) {
            session *s = *at;
            if (s->paused) choices_part(g, s); /* nobody waits for it */
            if (!s->cancelled) {
                at = &s->next;
                continue;
            }
            *at = s->next;
            if (s->placed) count_turn(g, s, -beam_count(s));
            else g->n_queued--;
            s->placed = false;
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

/* ---- pages that run out */

static void give_up_cache(engine *g, session *s)
{
    for (int i = 0; i < beam_count(s); i++)
        if (beam_member(s, i)->text.n_past) {
            g->preemptions++;
            break;
        }
    session_drop_cache(g, s);
}

/* Takes the cache of the last of those that wait and have one; false: nobody's can be taken now. */
static bool evict_waiting(engine *g)
{
    session *last = NULL;
    for (session *s = g->waiting; s; s = s->next)
        if (s->admitted && !in_flight(s)) last = s;
    if (last) give_up_cache(g, last);
    return last != NULL;
}

bool schedule_make_room(engine *g, session *s)
{
    session *last = NULL;
    if (evict_waiting(g)) return true;
    for (session *w = g->waiting; w; w = w->next)
        if (w->yields) return false; /* pages come when its steps are done */
    for (session *r = g->running; r; r = r->next)
        if (r->filled != g->fill) last = r; /* others have rows in this step already */
    if (!last || session_is_before(last, s)) return false;
    leave_place(g, last);
    count_queued(g, 1);
    last->yields = in_flight(last) > 0;
    if (last->yields) return false;
    give_up_cache(g, last);
    return last != s;
}

void schedule_requeue(engine *g)
{
    for (session *s = g->waiting; s; s = s->next) session_drop_cache(g, s);
    while (g->running) {
        session *s = g->running;
        leave_place(g, s);
        session_drop_cache(g, s);
        count_queued(g, 1);
    }
    tree_clear(&g->kv.tree);
}

/* ---- places */

int64_t schedule_expect(const engine *g, const session *s)
{
    const int64_t made = s->n_ids - s->n_prompt;
    int64_t more = (int64_t)ceil(1.1 * g->used_room * (double)s->room);
    if (more < made + PAGE_TOKENS) more = made + PAGE_TOKENS;
    return s->n_prompt + (more < s->room ? more : s->room);
}

/* Pages of a group that a session will hold besides those of now when it has made `from` … `to` more tokens, one a step
 * like all; below 0: it will have ended, and have given them back. */
static int64_t pages_more(const engine *g, uint32_t group, const session *s, int64_t from, int64_t to)
{
    const int64_t held = (s->text.n_sent + PAGE_TOKENS - 1) / PAGE_TOKENS - s->text.first[group];
    const int64_t left = schedule_expect(g, s) - s->n_ids;
    if (left < from) return -held;
    const int64_t length = s->n_ids + (left < to ? left : to);
    const int64_t most = pages_needed(length, g->prog->group_window[group], g->chunk * g->steps.in_flight);
    return most > held ? most - held : 0;
}

/* The same for s and all that run and go before it. */
static int64_t all_pages_more(const engine *g, uint32_t group, session *s, int64_t from, int64_t to)
{
    int64_t sum = pages_more(g, group, s, from, to) * beam_count(s);
    for (session *r = g->running; r; r = r->next)
        for (int k = 0; r->admitted && r->q.priority <= s->q.priority && k < beam_count(r); k++)
            sum += pages_more(g, group, beam_member(r, k), from, to);
    return sum;
}

/* Pages of a group that s could take now: free ones, and those of sessions that go behind it. */
static int64_t pages_there(const engine *g, uint32_t group, const session *s)
{
    int64_t there = g->kv.pages[group].n_free + g->kv.pages[group].n_kept;
    for (session *list = g->running; list; list = list == g->running ? g->waiting : NULL)
        for (session *r = list; r; r = r->next)
            for (int k = 0; r->admitted && (!r->placed || r->q.priority > s->q.priority) && k < beam_count(r); k++) {
                const session *m = beam_member(r, k);
                there += (m->text.n_sent + PAGE_TOKENS - 1) / PAGE_TOKENS - m->text.first[group];
            }
    return there;
}

/* Whether there are pages for a session, besides those that others will take who go before it: at any time, for short
 * texts will have ended when long ones are at their longest. */
static bool has_room(engine *g, session *s)
{
    int64_t most = schedule_expect(g, s) - s->n_ids;
    for (session *r = g->running; r; r = r->next) {
        const int64_t left = schedule_expect(g, r) - r->n_ids;
        if (left > most) most = left;
    }
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        if (g->prog->group_axis[i] == AXIS_ENC) continue;
        const int64_t there = pages_there(g, i, s);
        if (all_pages_more(g, i, s, 0, most) <= there) continue; /* even if none ends before */
        for (int k = 0; k < ROOM_TIMES; k++)
            if (all_pages_more(g, i, s, most * k / ROOM_TIMES, most * (k + 1) / ROOM_TIMES) > there) return false;
    }
    return true;
}

/* Of two that wait, or of two that run: whether a's turn is before b's. */
static bool has_turn(const engine *g, const session *a, const session *b)
{
    const running_shares *t = &g->shares;
    if (session_is_suspect(a) != session_is_suspect(b)) return session_is_suspect(a);
    const int owner = t->owner[a->q.owner % SHARE_COUNTS] - t->owner[b->q.owner % SHARE_COUNTS];
    const int request = t->request[a->q.request % SHARE_COUNTS] - t->request[b->q.request % SHARE_COUNTS];
    if (a->q.priority != b->q.priority) return a->q.priority < b->q.priority;
    return owner ? owner < 0 : request ? request < 0 : session_is_before(a, b);
}

static session *next_waiting(engine *g)
{
    session *best = NULL;
    pthread_mutex_lock(&g->lock); /* of `paused` */
    for (session *s = g->waiting; s; s = s->next)
        if (!s->paused && !s->yields && !s->prompt_owner && (!best || has_turn(g, s, best))) best = s;
    pthread_mutex_unlock(&g->lock);
    return best;
}

/* Whether s may have the place of `last`, which runs. Not if `last` could then replace s by the same rule: the two
 * would replace each other without end. */
static bool may_replace(const engine *g, const session *s, const session *last)
{
    const running_shares *t = &g->shares;
    const bool same = last->q.owner == s->q.owner;
    const uint16_t *share = same ? t->request : t->owner;
    const uint64_t of_last = same ? last->q.request : last->q.owner, of_s = same ? s->q.request : s->q.owner;
    if (last->q.priority != s->q.priority) return last->q.priority > s->q.priority;
    return share[of_last % SHARE_COUNTS] - beam_count(last) >= share[of_s % SHARE_COUNTS] + beam_count(s);
}

/* Where all places are taken: whether there are enough now for s, because others have left theirs. */
static bool make_places(engine *g, const session *s)
{
    while (g->n_running + beam_count(s) > g->info.max_batch) {
        session *last = NULL;
        for (session *r = g->running; r; r = r->next)
            if (!last || has_turn(g, last, r)) last = r;
        if (!last || !may_replace(g, s, last)) return false;
        leave_place(g, last);
        count_queued(g, 1);
    }
    return true;
}

/* 0: s runs; ERR_BUSY: not now; another code: it cannot. */
static int place_session(engine *g, session *s, err *e)
{
    if (!s->admitted && g->n_running && !has_room(g, s)) return ERR_BUSY;
    if (g->running && (session_is_suspect(s) || session_is_suspect(g->running))) return ERR_BUSY; /* it runs alone */
    if (!make_places(g, s)) return ERR_BUSY;
    int rc;
    while ((rc = session_admit(g, s, e)) == ERR_BUSY && evict_waiting(g)) {}
    if (rc) return rc;
    take_place(g, s);
    if (!(s->waited > 0)) s->waited = clock_now() - s->added;
    count_queued(g, -1);
    return OK;
}

bool schedule_admit_one(engine *g, session *s)
{
    pthread_mutex_lock(&g->lock);
    const bool may = !s->paused && !s->cancelled;
    pthread_mutex_unlock(&g->lock);
    return may && g->n_running < g->info.max_batch && place_session(g, s, &(err){0}) == OK;
}

void schedule_admit(engine *g)
{
    schedule_accept(g);
    for (session *s = g->waiting; s; s = s->next)
        if (s->yields && !in_flight(s)) give_up_cache(g, s);
    for (session *s; (s = next_waiting(g));) {
        err e = {0};
        const int rc = place_session(g, s, &e);
        if (rc == ERR_BUSY) return; /* nobody overtakes */
        if (rc) session_finish(g, s, FINISH_ERROR, e.msg);
    }
}
