/* text_slots.c - see text_slots.h. */
#include "cache/text_slots.h"

bool text_take_slots(kv_cache *c, cache_text *t)
{
    if (!c->slots.total) return true;
    if (c->slots.n_free + c->slots.n_kept < 2) return false;
    for (int i = 0; i < 2; i++) t->slot[i] = tree_take(&c->tree, c->tree.slots);
    t->slot_now = t->slot_was = t->slot[0];
    return true;
}

void text_give_slots(kv_cache *c, cache_text *t)
{
    text_move_slot(c, t, t->slot[0]);
    for (int i = 0; i < 2 && c->slots.total; i++) pages_give(&c->slots, t->slot[i]);
}

void text_move_slot(kv_cache *c, cache_text *t, int32_t slot)
{
    if (!c->slots.total || slot == t->slot_now) return;
    if (!text_owns_slot(t, slot)) pages_hold(&c->slots, slot);
    if (!text_owns_slot(t, t->slot_now)) pages_give(&c->slots, t->slot_now);
    t->slot_now = slot;
}

bool text_part_slot(kv_cache *c, cache_text *t)
{
    if (!c->slots.total || !text_owns_slot(t, t->slot_now)) return true;
    const int32_t other = tree_take(&c->tree, c->tree.slots);
    if (other < 0) return false;
    t->slot[t->slot_now == t->slot[1]] = other; /* it still holds slot_now, as one that is not its own */
    return true;
}

int64_t text_cut_rows(const kv_cache *c, const cache_text *t, int64_t rows)
{
    const int64_t most = SNAPSHOT_TOKENS - t->n_sent % SNAPSHOT_TOKENS;
    return c->slots.total && t->prefix >= 0 && rows > most ? most : rows;
}

void text_plan_snapshot(kv_cache *c, cache_text *t, int64_t to)
{
    if (c->slots.total && t->prefix >= 0 && to % SNAPSHOT_TOKENS == 0) t->snapshot = tree_take(&c->tree, c->tree.slots);
}

void text_sent(kv_cache *c, cache_text *t)
{
    if (!c->slots.total) return;
    if (!text_owns_slot(t, t->slot_now)) pages_hold(&c->slots, t->slot_now);
    if (!text_owns_slot(t, t->slot_was)) pages_give(&c->slots, t->slot_was);
    t->snapshot = -1;
}

void text_add_snapshot(kv_cache *c, cache_text *t, int32_t slot, int64_t to)
{
    if (!c->slots.total || text_owns_slot(t, slot)) return;
    if (t->prefix >= 0 && t->n_past == to && t->n_shared * PAGE_TOKENS == to)
        tree_put(&c->tree, t->prefix, c->tree.slots, slot);
    pages_give(&c->slots, slot);
}

void text_lose_slot(kv_cache *c, const cache_text *t, int32_t slot)
{
    if (c->slots.total && !text_owns_slot(t, slot)) pages_give(&c->slots, slot);
}
