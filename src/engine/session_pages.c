/* session_pages.c - what a session holds: pages, slots (session_slots.c), rope tables.
 *
 * An admitted session holds its slots, its rope tables and the pages of its encoder input. Pages of the text it takes
 * as it goes on, and gives those back that fall out of a window. */
#include "engine/beam.h"
#include "engine/engine_state.h"

#include <string.h>

/* All pages of the encoder input, or none; a choice that follows another one gets them from it. */
static bool take_encoder_pages(engine *g, session *s)
{
    const program *p = g->prog;
    for (int take = 0; take < 2 && !s->borrows && !s->leader; take++)
        for (uint32_t i = 0; i < p->n_group; i++) {
            if (p->group_axis[i] != AXIS_ENC) continue;
            if (g->pages[i].n_free + g->pages[i].n_kept < s->n_page[i]) return false;
            for (int64_t k = 0; take && k < s->n_page[i]; k++) s->page[i][k] = tree_take(&g->names, (int)i);
        }
    return true;
}

/* One session, without its beams. */
static int admit_one(engine *g, session *s, err *e)
{
    const program *p = g->prog;
    if (s->admitted) return OK;
    if (!session_take_slots(g, s)) return ERR_BUSY;
    if (!take_encoder_pages(g, s)) {
        session_give_slots(g, s);
        return ERR_BUSY;
    }
    s->admitted = true;
    for (uint32_t r = 0; r < p->n_rope; r++) s->variant[r] = -1;
    for (uint32_t r = 0; r < p->n_rope; r++) {
        s->variant[r] = rope_admit(&p->ropes[r], (int)(s->n_prompt + s->room), e);
        if (s->variant[r] < 0) return s->variant[r];
    }
    session_join_names(g, s);
    return OK;
}

/* `to` reads the encoder pages of `from`. */
static void hold_encoder(engine *g, session *to, const session *from)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++)
        for (int64_t k = 0; g->prog->group_axis[i] == AXIS_ENC && k < from->n_page[i]; k++)
            if (to->page[i][k] < 0) pages_hold(&g->pages[i], to->page[i][k] = from->page[i][k]);
}

int session_admit(engine *g, session *s, err *e)
{
    int rc = OK;
    for (int i = 0; i < beam_count(s) && !rc; i++) {
        session *beam = beam_member(s, i);
        if (!(rc = admit_one(g, beam, e)) && i) hold_encoder(g, beam, s);
    }
    if (rc) session_drop_cache(g, s);
    return rc;
}

int64_t session_take_pages(engine *g, session *s, int64_t to)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        if (g->prog->group_axis[i] == AXIS_ENC) continue;
        for (int64_t k = s->n_sent / PAGE_TOKENS; k * PAGE_TOKENS < to; k++) {
            if (s->page[i][k] < 0) s->page[i][k] = tree_take(&g->names, (int)i);
            if (s->page[i][k] < 0) to = k * PAGE_TOKENS;
        }
    }
    return to > s->n_sent ? to : s->n_sent;
}

void session_give_page(engine *g, uint32_t group, int32_t *page)
{
    const int32_t from = steps_forget_page(&g->steps, (int)group, *page);
    if (from >= 0) pages_give(&g->pages[group], from);
    pages_give(&g->pages[group], *page);
    *page = -1;
}

void session_copy_page(engine *g, uint32_t group, int32_t from, int32_t to)
{
    const int32_t other = steps_forget_page(&g->steps, (int)group, to);
    if (other >= 0) pages_give(&g->pages[group], other);
    pages_hold(&g->pages[group], from); /* it becomes no other's target before it is copied */
    steps_copy_page(&g->steps, (int)group, from, to);
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

/* Gives the pages of the text, or of the encoder input, back. */
static void give_pages(engine *g, session *s, int axis)
{
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        if (g->prog->group_axis[i] != axis) continue;
        for (int64_t k = s->n_page[i]; k-- > 0;) /* of those that are kept the last goes first */
            if (s->page[i][k] >= 0) session_give_page(g, i, &s->page[i][k]);
        s->first[i] = 0;
    }
}

void session_start_again(engine *g, session *s)
{
    session_leave_names(g, s);
    give_pages(g, s, AXIS_TOK);
    session_join_names(g, s);
    s->n_past = s->n_sent = 0;
    session_move_slot(g, s, s->slot[0]);
}

static void drop_one(engine *g, session *s)
{
    const program *p = g->prog;
    if (!s->admitted) return;
    session_leave_names(g, s);
    give_pages(g, s, AXIS_TOK);
    give_pages(g, s, AXIS_ENC);
    session_give_slots(g, s);
    for (uint32_t r = 0; r < p->n_rope; r++) rope_release(&p->ropes[r], s->variant[r]);
    s->n_past = s->n_sent = 0;
    s->n_draft = 0;
    s->encoded = s->borrows || s->q.n_enc == 0;
    s->admitted = s->yields = false;
}

void session_drop_cache(engine *g, session *s)
{
    for (int i = beam_count(s) - 1; i >= 0; i--) drop_one(g, beam_member(s, i));
    if (s->beams) beam_set_back(s->beams);
}
