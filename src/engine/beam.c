/* beam.c - see beam.h. Beams and schedule need each other: this file ends a query by session_end and session_finish of
 * schedule.c, which admits and fills by beam_count and beam_member, for a query with beams is several sessions. */
#include "engine/beam.h"

#include "base/mem.h"
#include "core/logit_check.h"

#include <math.h>
#include <string.h>

/* A continuation: a live text and one more token. */
typedef struct candidate {
    int member;
    int32_t id;
    double score; /* sum of log-probabilities */
    bool ends;    /* by a token that is no part of it */
    bool whole;   /* with its last token */
} candidate;

typedef struct finished {
    double score; /* divided by length ^ penalty */
    int64_t n;    /* generated tokens, the end token not counted */
    int32_t *ids;
    finish_reason why;
} finished;

struct beam_group {
    int n, live, arrived; /* sessions; those with a text: 1 during the prompt, then n; those with logits in this step */
    session **member;
    double score[BEAMS_MAX]; /* of each member's text */
    int keep;                /* candidates of a step */
    candidate *cand;         /* [n * keep] */
    int n_cand;
    top_logprob *top; /* [keep] */
    finished *done;   /* [n], best first */
    int n_done;
    int64_t forced; /* ids at the end of the prompt that count as generated */
};

/* ---- life */

/* A start that the model forces (a language) counts as generated, as in transformers. */
static int64_t forced_of(const query *q, const engine_info *i)
{
    bool start = i->n_enc_vocab && i->n_start > 1 && q->n_ids == (size_t)i->n_start &&
                 memcmp(q->ids, i->start, q->n_ids * sizeof *q->ids) == 0;
    return start ? i->n_start - 1 : 0;
}

static bool open_arrays(beam_group *b, int64_t room, int32_t bans)
{
    b->member = mem_zero((size_t)b->n, sizeof *b->member);
    b->cand = mem_array((size_t)b->n * (size_t)b->keep, sizeof *b->cand);
    b->top = mem_array((size_t)b->keep + (size_t)bans, sizeof *b->top);
    b->done = mem_zero((size_t)b->n, sizeof *b->done);
    for (int i = 0; b->done && i < b->n; i++)
        if (!(b->done[i].ids = mem_array((size_t)room + 1, sizeof *b->done[i].ids))) return false;
    return b->member && b->cand && b->top && b->done;
}

int beam_new(session *first, const query *q, const engine *g, err *e)
{
    const int ids = q->n_stop_ids < EOS_MAX ? q->n_stop_ids : EOS_MAX;
    const int ends = (q->ignore_eos ? 0 : g->info.n_eos) + ids + (q->is_whole ? 2 : 0);
    beam_group *b = first->beams = mem_zero(1, sizeof *b);
    if (!b) return err_memory(e, "a query");
    b->n = q->beams;
    b->live = 1;
    b->keep = (ends > 1 ? 1 + ends : 2) * b->n;
    b->forced = forced_of(q, &g->info);
    if (!open_arrays(b, first->room, g->options.n_bans))
        return err_set(e, ERR_MEMORY, "out of memory for %d beams", b->n);
    b->member[0] = first;
    for (int i = 1; i < b->n; i++) {
        int rc = session_new(&b->member[i], q, g->prog, g->info.ctx, e);
        if (rc) return rc;
        b->member[i]->beams = b;
        b->member[i]->borrows = b->member[i]->encoded = true;
    }
    return OK;
}

void beam_free(beam_group *b)
{
    if (!b) return;
    for (int i = 1; b->member && i < b->n; i++) session_free(b->member[i]);
    for (int i = 0; b->done && i < b->n; i++) mem_free(b->done[i].ids);
    mem_free(b->member);
    mem_free(b->cand);
    mem_free(b->top);
    mem_free(b->done);
    mem_free(b);
}

void beam_set_back(beam_group *b) { b->arrived = b->n_cand = 0; }

int beam_count(const session *s) { return s->beams ? s->beams->n : 1; }

session *beam_member(session *s, int i) { return s->beams ? s->beams->member[i] : s; }

bool beam_ready(const session *s)
{
    const session *first = s->beams ? s->beams->member[0] : s;
    return s == first || (s->text.n_sent < s->n_ids && s->beams->live > 1 && first->encoded);
}

/* ---- one step of the search */

/* Keeps the best `keep` of all candidates, best first; of equals the first. */
static void sort_candidates(beam_group *b)
{
    for (int i = 1; i < b->n_cand; i++) {
        candidate c = b->cand[i];
        int k = i;
        for (; k > 0 && b->cand[k - 1].score < c.score; k--) b->cand[k] = b->cand[k - 1];
        b->cand[k] = c;
    }
    if (b->n_cand > b->keep) b->n_cand = b->keep;
}

static void add_finished(beam_group *b, const candidate *c, double penalty, finish_reason why)
{
    const session *s = b->member[c->member];
    int64_t made = s->n_ids - s->n_prompt;
    double score = c->score / pow((double)(made + 1 + b->forced), penalty);
    if (b->n_done == b->n && b->done[b->n - 1].score >= score) return;
    int at = b->n_done < b->n ? b->n_done++ : b->n - 1;
    finished f = b->done[at]; /* its array is reused */
    for (; at > 0 && b->done[at - 1].score < score; at--) b->done[at] = b->done[at - 1];
    f.score = score;
    f.n = made;
    f.why = why;
    memcpy(f.ids, s->ids + s->n_prompt, (size_t)made * sizeof *f.ids);
    if (!c->ends) f.ids[f.n++] = c->id;
    b->done[at] = f;
}

/* Whether a running text may beat the worst finished one, by the heuristic of transformers. */
static bool may_improve(const beam_group *b, const query *q, double best, int64_t made, int64_t room)
{
    if (b->n_done < b->n) return true;
    if (q->early_stopping == BEAM_STOP_FIRST) return false;
    bool longest = q->early_stopping == BEAM_STOP_NEVER && q->length_penalty > 0;
    double length = (double)((longest ? room : made) + b->forced);
    return best / pow(length, q->length_penalty) > b->done[b->n - 1].score;
}

/* Delivers the k-th best text, or, where so many have not ended, an empty one. False: the query is to end. */
static bool deliver_text(const session *s, int k, uint64_t *made)
{
    static const finished none = {.why = FINISH_LENGTH};
    const finished *f = k < s->beams->n_done ? &s->beams->done[k] : &none;
    token_event ev = {
        .query_id = s->id, .cached_tokens = s->cached, .queue_seconds = s->waited, .score = (float)f->score, .beam = k};
    for (; ev.index < f->n; ev.index++) {
        ev.token = f->ids[ev.index];
        ev.finish = ev.index + 1 == f->n && f->why == FINISH_LENGTH ? FINISH_LENGTH : FINISH_NONE;
        ++*made;
        if (s->q.on_token && !s->q.on_token(s->q.ctx, &ev) && !ev.finish) return false;
    }
    if (ev.finish) return true;
    ev.token = -1;
    ev.finish = f->why;
    if (s->q.on_token) s->q.on_token(s->q.ctx, &ev);
    return true;
}

/* Delivers the best texts; the query ends. */
static void deliver_beams(engine *g, session *s, uint64_t *made)
{
    const int n = s->q.n_best > 1 ? s->q.n_best : 1;
    for (int k = 0; k < n && deliver_text(s, k, made); k++) continue;
    session_end(g, s);
}

/* Chooses a session for each text that lives on: the first text of a session stays in it, the others move to sessions
 * whose texts all died. */
static void place_beams(engine *g, beam_group *b, const candidate *next)
{
    bool taken[BEAMS_MAX] = {false};
    int slot[BEAMS_MAX];
    for (int i = 0; i < b->n; i++) {
        slot[i] = taken[next[i].member] ? -1 : next[i].member;
        taken[next[i].member] = true;
    }
    for (int i = 0, spare = 0; i < b->n; i++) {
        if (slot[i] >= 0) continue;
        while (taken[spare]) spare++;
        taken[spare] = true;
        slot[i] = spare;
        session_copy_text(g, b->member[spare], b->member[next[i].member]);
    }
    for (int i = 0; i < b->n; i++) {
        session *s = b->member[slot[i]];
        s->ids[s->n_ids++] = next[i].id;
        b->score[slot[i]] = next[i].score;
    }
    b->live = b->n;
}

static bool is_whole(const beam_group *b, const candidate *c, const query *q)
{
    session *s = b->member[c->member];
    if (c->ends || !q->is_whole) return false;
    s->ids[s->n_ids] = c->id; /* there is room: the text is not at its longest */
    return q->is_whole(q->ctx, s->ids + s->n_prompt, s->n_ids - s->n_prompt + 1);
}

/* All logits are there. */
static void advance(engine *g, session *first, uint64_t *made)
{
    beam_group *b = first->beams;
    const query *q = &first->q;
    const int64_t length = first->n_ids - first->n_prompt + 1; /* with the token that is chosen now */
    const bool last = length >= first->room;
    candidate next[BEAMS_MAX];
    int n_next = 0;
    sort_candidates(b);
    for (int i = 0; i < b->n_cand && (i < b->n || n_next < b->n); i++) {
        candidate *c = &b->cand[i];
        c->whole = is_whole(b, c, q);
        const bool stops = c->ends || c->whole;
        if (!stops && !last && n_next < b->n) next[n_next++] = *c;
        if ((stops || last) && i < b->n) add_finished(b, c, q->length_penalty, stops ? FINISH_STOP : FINISH_LENGTH);
    }
    bool go_on = !last && n_next == b->n && may_improve(b, q, next[0].score, length, first->room);
    b->n_cand = b->arrived = 0;
    if (!go_on && b->n_done) {
        deliver_beams(g, first, made);
        return;
    }
    if (go_on) place_beams(g, b, next);
    else session_finish(g, first, FINISH_ERROR, "no text is left to follow");
}

void beam_take(engine *g, session *s, const float *logits, uint64_t *made)
{
    beam_group *b = s->beams;
    int which = 0, keep = b->keep + g->options.n_bans; /* as many are left at least */
    if (keep > g->info.n_vocab) keep = g->info.n_vocab;
    session *first = b->member[0];
    if (first->room == 0) {
        session_finish(g, first, FINISH_LENGTH, NULL);
        return;
    }
    if (logits_have_nan(logits, g->info.n_vocab)) {
        session_end_not_finite(g, first, "logit");
        return;
    }
    while (b->member[which] != s) which++;
    sampler_logprobs(g->sampler, logits, g->info.n_vocab, 0, b->top, keep);
    bool hold = s->n_ids - s->n_prompt < s->q.min_tokens;
    for (int i = 0, taken = 0; i < keep && taken < b->keep; i++) {
        if (session_would_complete(s, g->options.bans, g->options.n_bans, b->top[i].id)) continue;
        taken++;
        bool ends = session_ends_with(s, &g->info, b->top[i].id);
        if (!isfinite(b->top[i].logprob) || (ends && hold)) continue;
        b->cand[b->n_cand++] = (candidate){which, b->top[i].id, b->score[which] + (double)b->top[i].logprob, ends};
    }
    if (++b->arrived < b->live) return;
    advance(g, first, made);
}
