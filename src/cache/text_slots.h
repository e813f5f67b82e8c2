/* text_slots.h - where the states of fixed size of a text are (short convolutions, recurrent states).
 *
 * A text has two slots of its own: each step reads one and writes the other. A state has no positions, so it cannot be
 * shared where texts part, but only where somebody kept it: at a multiple of 256 positions a step ends, and writes
 * another slot, which nobody writes again: a snapshot. So it costs no copy. It is due there while slots are free, and
 * then where it is worth more than another one (snapshot_worth.h), which may be one that a step under way writes: that
 * one is never found. It gets a node when the step has been collected (prefix_tree.h); whoever finds it reads it in the
 * next step, and writes a slot of its own. The text holds the snapshot until that step is sent: only later steps
 * overwrite a slot that is given back then. A step also holds the slot that it writes. Choices go on from the slot
 * after the prompt in the same way.
 *
 * Rows that may turn out to be wrong, as those of guesses, a slot keeps apart (step.h): those that hold count in the
 * next step, which does not compute them again.
 *
 * Where the model has no slots nothing happens here, and nothing is missing. */
#pragma once
#include "cache/cache_text.h"

static inline bool text_owns_slot(const cache_text *t, int32_t slot)
{
    return slot == t->slot[0] || slot == t->slot[1];
}
/* The slot that its next step writes. */
static inline int32_t text_next_slot(const cache_text *t)
{
    return t->snapshot >= 0 ? t->snapshot : t->slot[t->slot_now == t->slot[0]];
}

/* Two of its own. False: there are none now. */
bool text_take_slots(kv_cache *c, cache_text *t);
void text_give_slots(kv_cache *c, cache_text *t);
/* It continues from the state in this slot, of which it becomes a holder where it is not its own. */
void text_move_slot(kv_cache *c, cache_text *t, int32_t slot);
/* Its state is where its steps do not write, so that others can go on from there too. False: there is no slot left. */
bool text_part_slot(kv_cache *c, cache_text *t);
/* Of so many rows, those up to the next position at which a snapshot is due. A step with guesses ends before that: a
 * snapshot keeps no rows apart. */
int64_t text_cut_rows(kv_cache *c, const cache_text *t, int64_t rows, bool guesses);
/* Its last n rows were wrong. False: the slot does not keep them apart, so they cannot be taken back. */
bool text_take_back(const kv_cache *c, cache_text *t, int64_t n);
/* Its next step will end at position `to`: where a snapshot is due, the step writes one. */
void text_plan_snapshot(kv_cache *c, cache_text *t, int64_t to);
/* A step with rows of it was sent: it holds the slot that its next step reads. */
void text_sent(kv_cache *c, cache_text *t);
/* It has taken what a step to position `to`, which wrote this slot, has given: a snapshot gets its node. */
void text_add_snapshot(kv_cache *c, cache_text *t, int32_t slot, int64_t to);
/* The step that was to write this slot has failed, or is lost. */
void text_lose_slot(kv_cache *c, const cache_text *t, int32_t slot);
