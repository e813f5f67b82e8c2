/* session_cache.c - what a session has in the cache, with its beams: slots, rope tables and pages of its encoder input
 * while it is admitted; pages of its text as it goes on (cache/cache_text.h). */
#include "engine/beam.h"
#include "engine/engine_state.h"

#include <string.h>

/* One session, without its beams; a choice that follows another one gets the encoder pages from it. */
static int admit_one(engine *g, session *s, err *e)
{
    cache_text *t = &s->text;
    if (s->admitted) return OK;
    if (!text_take_slots(&g->kv, t)) return ERR_BUSY;
    if (!s->borrows && !s->prompt_owner && !text_take_encoder(&g->kv, t)) {
        text_give_slots(&g->kv, t);
        return ERR_BUSY;
    }
    s->admitted = true;
    const int rc = text_take_ropes(&g->kv, t, s->n_prompt + s->room, e);
    if (!rc) prefix_join(&g->kv, t);
    return rc;
}

int session_admit(engine *g, session *s, err *e)
{
    int rc = OK;
    for (int i = 0; i < beam_count(s) && !rc; i++) {
        session *beam = beam_member(s, i);
        if (!(rc = admit_one(g, beam, e)) && i) text_hold_encoder(&g->kv, &beam->text, &s->text);
    }
    if (rc) session_drop_cache(g, s);
    return rc;
}

bool session_follow(engine *g, session *s)
{
    cache_text *t = &s->text;
    const disk_turn now = disk_turn_of(g);
    const bool scores = s->q.prompt_logprobs && s->scored + 1 < s->n_prompt; /* it computes what it scores */
    const int64_t before = t->n_past > t->n_done ? t->n_past : t->n_done;
    const bool may = prefix_follow(&g->kv, t, s->n_ids, scores, &now);
    const int64_t found = t->n_past < s->n_prompt ? t->n_past : s->n_prompt;
    if (found > before) s->cached += found - before;
    return may;
}

void session_copy_text(engine *g, session *to, const session *from)
{
    memcpy(to->ids, from->ids, (size_t)from->n_ids * sizeof *to->ids);
    to->n_ids = from->n_ids;
    to->encoded = true;
    text_copy(&g->kv, &to->text, &from->text);
}

static void drop_one(engine *g, session *s)
{
    cache_text *t = &s->text;
    if (!s->admitted) return;
    prefix_leave(&g->kv, t);
    text_give_pages(&g->kv, t, AXIS_TOK);
    text_give_pages(&g->kv, t, AXIS_ENC);
    text_give_slots(&g->kv, t);
    text_give_ropes(&g->kv, t);
    t->n_past = t->n_sent = 0;
    s->draft.n = 0;
    s->encoded = s->borrows || s->q.n_enc == 0;
    s->admitted = s->yields = false;
}

void session_drop_cache(engine *g, session *s)
{
    for (int i = beam_count(s) - 1; i >= 0; i--) drop_one(g, beam_member(s, i));
    if (s->beams) beam_set_back(s->beams);
}
