/* infer.c - runs one step, then scores or draws a token for every wanted row and delivers it. */
#include "engine/beam.h"
#include "engine/engine_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/logit_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Log-probability of the prompt token after `pos`. False: the query is over. */
static bool score_prompt(engine *g, session *s, int64_t pos, const float *logits)
{
    if (logits_have_nan(logits, g->info.n_vocab)) {
        session_end_not_finite(g, s, "logit");
        return true; /* it has ended already */
    }
    int32_t id = s->ids[pos + 1], n = s->q.n_logprobs > 0 ? s->q.n_logprobs : 0;
    token_event ev = {.query_id = s->id, .token = id, .index = pos + 1 - s->n_prompt, .top = s->top, .n_top = n};
    ev.logprob = sampler_logprobs(g->sampler, logits, g->info.n_vocab, id, s->top, n);
    s->scored = pos + 1;
    return !s->q.on_token || s->q.on_token(s->q.ctx, &ev);
}

/* Delivers the k-th token that the step has drawn, from this row. */
static void generate(engine *g, session *s, int k, const logit_row *row, uint64_t *made)
{
    if (s->room == 0) {
        session_finish(g, s, FINISH_LENGTH, NULL);
        return;
    }
    int32_t id = s->best == 1 ? (isfinite(row->best->value) ? row->best->id : -1) : s->drawn[k];
    if (id == CONSTRAINT_OVER || id == CONSTRAINT_FAILED) {
        const bool over = id == CONSTRAINT_OVER;
        session_finish(g, s, over ? FINISH_STOP : FINISH_ERROR, over ? NULL : constraint_error(s->rule));
        return;
    }
    if (id < 0) {
        session_end_not_finite(g, s, "logit");
        return;
    }
    int64_t index = s->n_ids - s->n_prompt;
    token_event ev = {
        .query_id = s->id, .token = id, .index = index, .cached_tokens = s->cached, .queue_seconds = s->waited};
    if (s->q.n_logprobs >= 0) {
        if (s->q.prompt_logprobs && index == 0) /* what scored the prompt has used `top` since it was drawn */
            s->drawn_logprob[0] = sampler_logprobs(g->sampler, row->all, g->info.n_vocab, id, s->top, s->q.n_logprobs);
        ev.logprob = s->drawn_logprob[k];
        if (s->top) ev.top = s->top + (int64_t)k * s->q.n_logprobs;
        ev.n_top = s->q.n_logprobs;
    }
    if (session_ends_with(s, &g->info, id)) {
        ev.ends = true;
        ev.end_token = id;
        ev.token = -1;
        ev.finish = FINISH_STOP;
        if (s->q.on_token) s->q.on_token(s->q.ctx, &ev);
        session_end(g, s);
        return;
    }
    s->ids[s->n_ids++] = id;
    if (index == 0) s->begun = clock_now();
    ++*made;
    bool over = index + 1 == s->room;
    ev.finish = over ? FINISH_LENGTH : FINISH_NONE;
    if (s->rule && constraint_is_over(s->rule, s->ids + s->n_prompt, index + 1)) {
        ev.finish = FINISH_STOP;
        over = true;
    }
    bool go_on = !s->q.on_token || s->q.on_token(s->q.ctx, &ev);
    if (over || !go_on) session_end(g, s);
}

static bool all_finite(const float *x, int32_t n)
{
    int32_t i = 0;
    while (i < n && isfinite(x[i])) i++;
    return i == n;
}

/* Delivers row `at` of the pooled results to its query. */
static void deliver_pooled(engine *g, session *s, int32_t at)
{
    token_event ev = {.query_id = s->id, .token = -1, .finish = FINISH_STOP, .queue_seconds = s->waited};
    if (g->info.n_pooled) ev.pooled = plan_result(g->plan, ENTRY_POOL) + (int64_t)at * g->info.n_pooled;
    if (g->info.n_score) ev.scores = plan_result(g->plan, ENTRY_SCORES) + (int64_t)at * g->info.n_score;
    if (!all_finite(ev.pooled, g->info.n_pooled) || !all_finite(ev.scores, g->info.n_score)) {
        session_end_not_finite(g, s, "numbers");
        return;
    }
    if (s->q.on_token) s->q.on_token(s->q.ctx, &ev);
    session_end(g, s);
}

/* The prompt of a session has been read: those that waited for it draw from the row of its last token. */
static void fork_choices(engine *g, session *s, const logit_row *row, uint64_t *made)
{
    const int n = choices_fork(g, s, g->ready);
    for (int i = 0; i < n; i++) {
        session *other = g->ready[i];
        if (other->best != 1 && other->room) draws_one(g->draws, &g->info, other, row);
        generate(g, other, 0, row, made);
    }
}

/* Delivers the rows of sequence k from row *i of the results on. */
static void deliver_rows(engine *g, const step *st, int32_t k, session *s, int64_t before, int32_t *i, uint64_t *made)
{
    const int64_t n_ids = s->n_ids;
    bool holds = true; /* the guess that the row is of, and those before it */
    for (; *i < st->n[AXIS_OUT] && st->out[*i] < st->tok.seq_row[k + 1]; ++*i) {
        const int64_t pos = before + st->out[*i] - st->tok.seq_row[k];
        const logit_row row = draws_row(g->plan, &g->info, st, *i);
        if (beam_member(s, 0)->gone) continue;
        if (pos + 1 < s->n_prompt) {
            if (!score_prompt(g, s, pos, row.all)) session_end(g, s);
        } else if (s->beams) {
            beam_take(g, s, row.all, made);
        } else if (holds) {
            if (s->owns_prompt) fork_choices(g, s, &row, made);
            const int32_t guess = pos + 1 < n_ids + s->draft.n ? s->ids[pos + 1] : -1;
            generate(g, s, (int)(pos + 1 - n_ids), &row, made);
            holds = pos + 1 < s->n_ids && s->ids[pos + 1] == guess; /* there may be no room for one */
        }
    }
}

/* What a step of a session was for: `before` to `to` are its positions. */
static void count_rows(engine_stats *did, const session *s, int64_t before, int64_t to)
{
    const int64_t again = (to < s->text.n_done ? to : s->text.n_done) - before;
    if (again > 0) did->recomputed_tokens += (uint64_t)again;
    if (s->text.n_done >= s->n_prompt || to < s->n_prompt || s->prompt_counted) return;
    const uint64_t n = (uint64_t)s->n_prompt + s->q.n_enc;
    did->prompt_tokens += n;
    did->cached_tokens += (uint64_t)s->cached;
    if (s->text.prefix < 0 || s->q.prompt_logprobs) return;
    did->sought_tokens += n;
    did->found_tokens += (uint64_t)s->cached;
}

/* Delivers the rows of a session with guesses. What is in the cache counts as far as they held. */
static void deliver_guesses(engine *g, const batch *b, int32_t k, session *s, int32_t *i, engine_stats *did)
{
    const int64_t n_ids = s->n_ids, to = s->text.n_sent;
    const int made = s->draft.n;
    deliver_rows(g, &b->st, k, s, s->text.n_past, i, &did->generated_tokens);
    const int came = (int)(s->n_ids - n_ids), held = came > 0 ? came - 1 : 0;
    did->draft_tokens += (uint64_t)made;
    did->draft_accepted += (uint64_t)held;
    if (!s->gone) draft_learn(s, held);
    if (text_take_back(&g->kv, &s->text, made - held)) text_advance(&g->kv, &s->text, held + 1);
    else text_move_slot(&g->kv, &s->text, s->text.slot_was); /* the state before this step */
    text_add_snapshot(&g->kv, &s->text, b->slot_write[k], to);
    s->text.n_sent = s->text.n_past;
    s->draft.n = 0;
}

/* Tells how far the prompt of a session has been read. */
static void tell_reading(engine *g, session *s, int64_t read)
{
    const token_event ev = {.query_id = s->id,
                            .token = -1,
                            .index = read - s->n_prompt,
                            .cached_tokens = s->cached,
                            .queue_seconds = s->waited,
                            .prompt_read = read};
    if (s->q.on_token && !s->q.on_token(s->q.ctx, &ev)) session_end(g, s);
}

/* A step with rows or page copies of the session failed: what its pages hold is not known. */
static void end_failed(engine *g, session *s, const err *why)
{
    for (int i = 0; i < beam_count(s); i++) prefix_leave(&g->kv, &beam_member(s, i)->text);
    if (!s->gone) session_finish(g, s, FINISH_ERROR, why->msg);
}

/* Ends the query of sequence k if its rows are no numbers, and leaves out its results; those of others are good. */
static bool end_faulty(engine *g, const batch *b, int32_t k, int64_t before, int32_t *i)
{
    session *s = b->who[k];
    const int64_t to = s->text.n_sent;
    err why = {0};
    if (!row_fault_error(g, b, k, before, &why)) return false;
    end_failed(g, beam_member(s, 0), &why);
    text_add_snapshot(&g->kv, &s->text, b->slot_write[k], to); /* gives it back */
    while (*i < b->st.n[AXIS_OUT] && b->st.out[*i] < b->st.tok.seq_row[k + 1]) ++*i;
    return true;
}

/* Delivers the results of a step to its sessions, some of which end here, or have ended since it was sent. */
static void deliver_batch(engine *g, const batch *b, engine_stats *did)
{
    const step *st = &b->st;
    draws_run(g->draws, &g->info, b, g->plan);
    for (int32_t k = 0, i = 0, pooled = 0; k < st->n_seq; k++) {
        session *s = b->who[k];
        const int64_t before = s->text.n_past, to = before + st->tok.seq_row[k + 1] - st->tok.seq_row[k];
        did->encoder_runs += st->enc.seq_row[k + 1] > st->enc.seq_row[k];
        if (end_faulty(g, b, k, before, &i)) {
            pooled += s->q.pooled;
            continue;
        }
        const uint64_t made = did->generated_tokens;
        if (s->draft.n) {
            deliver_guesses(g, b, k, s, &i, did);
            s->losses = 0;
            continue;
        }
        count_rows(did, s, before, to);
        text_advance(&g->kv, &s->text, to - before);
        text_add_snapshot(&g->kv, &s->text, b->slot_write[k], to);
        if (s->q.pooled && !s->gone) deliver_pooled(g, s, pooled);
        pooled += s->q.pooled;
        if (s->q.tells_reading && to < s->n_prompt && !s->gone) tell_reading(g, s, to);
        deliver_rows(g, st, k, s, before, &i, &did->generated_tokens);
        if (did->generated_tokens != made) beam_member(s, 0)->losses = 0;
    }
}

/* Whether a page that the step was to copy is the session's, or of one of its beams. */
static bool has_copy(session *s, const batch *b)
{
    for (int32_t c = 0; c < b->st.n_copy; c++)
        for (int i = 0; i < beam_count(s); i++) {
            const session *m = beam_member(s, i);
            const page_copy *copy = &b->copies[c];
            for (int64_t k = 0; k < m->text.n_page[copy->group]; k++)
                if (m->text.page[copy->group][k] == copy->to) return true;
        }
    return false;
}

/* A device failed: queries with rows in the step, or with pages that were to be copied, end with its message. */
static void fail_batch(engine *g, const batch *b, const err *why)
{
    session *const lists[] = {g->running, g->waiting};
    for (int i = 0; i < 2; i++)
        for (session *s = lists[i], *next; s; s = next) {
            next = s->next;
            if (has_copy(s, b)) end_failed(g, s, why);
        }
    for (int32_t k = 0; k < b->st.n_seq; k++) end_failed(g, beam_member(b->who[k], 0), why);
}

/* Adds what a step did, and tells how things are. */
static void add_stats(engine *g, const engine_stats *did)
{
    int64_t used = 0, kept = 0, free = 0;
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        const page_pool *p = &g->kv.pages[i];
        used += p->total - p->n_free - p->n_kept;
        kept += p->n_kept;
        free += p->n_free;
    }
    pthread_mutex_lock(&g->lock);
    engine_stats *st = &g->stats;
    st->steps += did->steps;
    st->encoder_runs += did->encoder_runs;
    st->prompt_tokens += did->prompt_tokens;
    st->cached_tokens += did->cached_tokens;
    st->sought_tokens += did->sought_tokens;
    st->found_tokens += did->found_tokens;
    st->generated_tokens += did->generated_tokens;
    st->draft_tokens += did->draft_tokens;
    st->draft_accepted += did->draft_accepted;
    st->recomputed_tokens += did->recomputed_tokens;
    st->preemptions = g->preemptions;
    disk_cache_count(&g->kv, &st->disk_read, &st->disk_written);
    st->running = g->n_running;
    st->spare = spares_any(&g->devices);
    st->in_flight = steps_under_way(&g->steps);
    slots_note(g);
    st->pages_used = used;
    st->pages_kept = kept;
    st->pages_free = free;
    st->kv_usage = used ? (double)used / (double)(used + kept + free) : 0;
    pthread_mutex_unlock(&g->lock);
}

/* Fills a step and sends it. False: there is nothing to do, or as many are under way as may be. */
static bool send_step(engine *g)
{
    batch *b = steps_next(&g->steps);
    if (!b) return false;
    schedule_guess(g);
    if (!steps_under_way(&g->steps)) g->step_began = clock_now();
    mem_guard("a step");
    schedule_fill(g, b);
    b->st.expected = step_time_predict(&g->step_times, &b->st);
    const bool sent = steps_send(&g->steps, &g->kv, g->plan);
    if (sent) kv_copied(&g->kv, b->copies, b->st.n_copy);
    for (int32_t i = 0; sent && i < b->st.n_seq; i++) text_sent(&g->kv, &b->who[i]->text);
    mem_unguard();
    return sent;
}

static void time_step(engine *g, const batch *b)
{
    const double now = clock_now();
    step_time_learn(&g->step_times, &b->st, now - g->step_began);
    g->step_began = now;
}

/* A step is waited for: when it counts as late. Half of the time after which a node counts as lost (net/leader.c). */
static void note_late(engine *g, bool waits)
{
    const double least = 2.5, times = 4,
                 expected = g->steps.rows[g->steps.collected % (uint64_t)g->steps.in_flight].st.expected;
    pthread_mutex_lock(&g->lock);
    g->late_at = !waits ? 0 : clock_now() + (times * expected > least ? times * expected : least);
    pthread_mutex_unlock(&g->lock);
}

/* Whether a text waits for pages from disk, which devices take when no step is under way. */
static bool waits_for_disk(engine *g)
{
    const disk_turn now = disk_turn_of(g);
    return disk_cache_waits(&g->kv, &now);
}

/* A step has failed: new queries are refused from now on where a device is lost. */
static void note_broken(engine *g)
{
    err why = {0}, told = {0};
    if (g->broken.code || !plan_is_broken(g->plan, &why)) return;
    err_set(&told, ERR_UNAVAILABLE, "%s", why.msg);
    pthread_mutex_lock(&g->lock);
    g->broken = told;
    pthread_mutex_unlock(&g->lock);
    if (g->harm.watches) /* it serves: who asks next has not seen that query's error */
        log_line(LOG_ERROR, "%s: nothing is computed any more; start this process again", why.msg);
}

int engine_infer(engine *g, bool *more, err *e)
{
    engine_stats did = {0};
    err why = {0};
    int rc = OK;
    (void)e;
    if (!g->harm.active && damage_check(g, &why)) damage_begin(g, &why);
    if (g->harm.active) {
        damage_go_on(g);
        *more = queue_has_work(g);
        return OK;
    }
    if (g->away.active) {
        recovery_go_on(g);
        *more = queue_has_work(g);
        return OK;
    }
    const bool leaves = recovery_leaves(g);
    if (g->away.active) {
        *more = queue_has_work(g);
        return OK;
    }
    if (!leaves) schedule_admit(g);
    sessions_free_gone(g);
    for (bool sent = !leaves; sent && !waits_for_disk(g);) sent = send_step(g);
    mem_guard("a step");
    bool any = steps_under_way(&g->steps) > 0;
    if (any) note_late(g, true);
    const batch *b = any ? steps_collect(&g->steps, g->plan, &rc, &why) : NULL;
    if (any) note_late(g, false);
    mem_unguard();
    if (b) time_step(g, b);
    const bool damaged = b && !rc && (rc = damage_check(g, &why));
    if (b && rc) steps_lose_slots(&g->kv, b);
    if (b && rc) note_broken(g);
    if (damaged) damage_begin(g, &why);
    else if ((!any || rc) && recovery_begin(g, b)) any = false;
    else if (b && rc) fail_batch(g, b, &why);
    else if (b) deliver_batch(g, b, &did);
    sessions_free_gone(g);
    const disk_turn now = disk_turn_of(g);
    disk_cache_write(&g->kv, &now);
    did.steps = any;
    add_stats(g, &did);
    *more = steps_under_way(&g->steps) > 0 || queue_has_work(g);
    peers_look(g, !*more);
    return OK;
}
