/* text_slots.c - see text_slots.h. */
#include "cache/text_slots.h"
#include "cache/snapshot_worth.h"

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
    t->taken = 0;
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

/* Whether a snapshot is due at a position; *slot: the one that makes room, -1: there is. */
static bool is_due(kv_cache *c, const cache_text *t, int64_t to, int32_t *slot)
{
    *slot = -1;
    return c->slots.n_free || snapshot_is_better(&c->tree, t, to, slot);
}

int64_t text_cut_rows(kv_cache *c, const cache_text *t, int64_t rows, bool guesses)
{
    const int64_t end = t->n_sent + rows - (guesses && !c->slot_rows);
    int64_t to = t->n_sent - t->n_sent % SNAPSHOT_TOKENS + SNAPSHOT_TOKENS;
    int32_t slot;
    if (!c->slots.total || t->prefix < 0) return rows;
    while (to <= end && !is_due(c, t, to, &slot)) to += SNAPSHOT_TOKENS;
    if (to > end) return rows;
    rows = to - t->n_sent;
    return guesses && c->slot_rows && rows > 1 ? rows - 1 : rows;
}

bool text_take_back(const kv_cache *c, cache_text *t, int64_t n)
{
    if (!c->slots.total || !n) return true;
    if (n > t->taken) return false;
    t->taken -= (int32_t)n;
    return true;
}

void text_plan_snapshot(kv_cache *c, cache_text *t, int64_t to)
{
    int32_t slot;
    if (!c->slots.total || t->prefix < 0 || to % SNAPSHOT_TOKENS || !is_due(c, t, to, &slot)) return;
    const bool again = slot >= 0 && c->slots.use[slot].holders; /* a step under way writes it before */
    if (slot >= 0 && !again) tree_forget(&c->tree, c->tree.slots, slot);
    if (again) pages_hold(&c->slots, slot);
    t->snapshot = again ? slot : pages_take(&c->slots);
    snapshot_comes(&c->tree, t->snapshot, t, to);
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
    if (snapshot_came(&c->tree, slot, t, to) && t->prefix >= 0 && t->n_past == to && t->n_shared * PAGE_TOKENS == to) {
        tree_put(&c->tree, t->prefix, c->tree.slots, slot);
        c->tree.node[t->prefix].parts = false;
        snapshot_used(&c->tree, slot);
    }
    pages_give(&c->slots, slot);
}

void text_lose_slot(kv_cache *c, const cache_text *t, int32_t slot)
{
    if (!c->slots.total || text_owns_slot(t, slot)) return;
    snapshot_comes(&c->tree, slot, NULL, 0);
    pages_give(&c->slots, slot);
}
