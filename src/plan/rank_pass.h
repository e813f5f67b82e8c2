/* rank_pass.h - what a rank hands to ranks in other processes: on the channels of a link between all ranks of a plan,
 * of which each lane has one. The first are for collectives; then each step under way in the lane has one for every
 * crossing. All is of step a->next, by the thread of the lane. */
#pragma once
#include "plan/plan_state.h"

/* Steps that may be under way in a lane. */
static inline int steps_of_lane(const plan *l) { return (l->in_flight + l->lanes - 1) / l->lanes; }

/* The n bytes that a rank elsewhere sends of crossing k: waits for them; until remote_release. */
int remote_take(const rank_lane *a, uint32_t k, int from, uint64_t n, const void **bytes, err *e);
void remote_release(const rank_lane *a, uint32_t k, int from);
/* Sends n bytes of crossing k to rank `to` elsewhere; what the rank wrote of it to all devices that read it. */
int remote_post(const rank_lane *a, int to, uint32_t k, const void *bytes, uint64_t n, err *e);
int remote_post_readers(const rank_lane *a, uint32_t k, const void *bytes, err *e);
/* Waits until nobody reads any longer what the rank sent in the step that had this place before. */
int remote_enter(const rank_lane *a, err *e);
