/* session_slots.c - where the states of fixed size of a session are (short convolutions, recurrent states).
 *
 * A session has two slots of its own: each step reads one and writes the other. A state has no positions, so it cannot
 * be shared where texts part, but only where somebody kept it: every 256 positions steps end, and the last one writes
 * another slot, which nobody writes again: a snapshot. So it costs no copy. It is named when the step has been
 * collected (page_tree.h); whoever finds it reads it in his next step, and writes a slot of his own. Until that step is
 * sent he holds it: what is given back then is overwritten by later steps only. A step holds what it writes, too.
 *
 * Choices go on from the slot after the prompt in the same way. */
#include "engine/engine_state.h"

bool session_take_slots(engine *g, session *s)
{
    if (!g->slots.total) return true;
    if (g->slots.n_free + g->slots.n_kept < 2) return false;
    for (int i = 0; i < 2; i++) s->slot[i] = tree_take(&g->names, g->names.slots);
    s->slot_now = s->slot_was = s->slot[0];
    return true;
}

void session_give_slots(engine *g, session *s)
{
    session_move_slot(g, s, s->slot[0]);
    for (int i = 0; i < 2 && g->slots.total; i++) pages_give(&g->slots, s->slot[i]);
}

void session_move_slot(engine *g, session *s, int32_t slot)
{
    if (!g->slots.total || slot == s->slot_now) return;
    if (!session_owns_slot(s, slot)) pages_hold(&g->slots, slot);
    if (!session_owns_slot(s, s->slot_now)) pages_give(&g->slots, s->slot_now);
    s->slot_now = slot;
}

bool session_part_slot(engine *g, session *s)
{
    if (!g->slots.total || !session_owns_slot(s, s->slot_now)) return true;
    const int32_t other = tree_take(&g->names, g->names.slots);
    if (other >= 0) s->slot[s->slot_now == s->slot[1]] = other; /* what made the other one its own holds it now */
    return other >= 0;
}

int64_t session_cut_rows(const engine *g, const session *s, int64_t rows)
{
    const int64_t most = SNAPSHOT_TOKENS - s->n_sent % SNAPSHOT_TOKENS;
    return g->slots.total && s->name >= 0 && rows > most ? most : rows;
}

void session_plan_snapshot(engine *g, session *s, int64_t to)
{
    if (g->slots.total && s->name >= 0 && to % SNAPSHOT_TOKENS == 0) s->snapshot = tree_take(&g->names, g->names.slots);
}

void slots_sent(engine *g, const batch *b)
{
    for (int32_t i = 0; i < b->st.n_seq && g->slots.total; i++) {
        session *s = b->who[i];
        if (!session_owns_slot(s, s->slot_now)) pages_hold(&g->slots, s->slot_now);
        if (!session_owns_slot(s, s->slot_was)) pages_give(&g->slots, s->slot_was);
        s->snapshot = -1;
    }
}

void session_name_snapshot(engine *g, session *s, int32_t slot, int64_t to)
{
    if (!g->slots.total || session_owns_slot(s, slot)) return;
    if (s->name >= 0 && s->n_past == to && s->n_named * PAGE_TOKENS == to)
        tree_put(&g->names, s->name, g->names.slots, slot);
    pages_give(&g->slots, slot);
}

void slots_lost(engine *g, const batch *b)
{
    for (int32_t i = 0; i < b->st.n_seq && g->slots.total; i++)
        if (!session_owns_slot(b->who[i], b->slot_write[i])) pages_give(&g->slots, b->slot_write[i]);
}
