/* rank_pass.h - what a rank hands to ranks in other processes: on the channels of a link between all ranks of a plan,
 * of which each lane has one. The first are for collectives; then each step under way in the lane has one for every
 * crossing. All is of step a->next, by the thread of the lane. */
#pragma once
#include "plan/plan_state.h"

/* Steps that may be under way in a lane. */
static inline int steps_of_lane(const plan *l) { return (l->in_flight + l->lanes - 1) / l->lanes; }

/* Columns of an input that a rank elsewhere wrote: waits for them; until far_release. */
int far_take(const rank_lane *a, uint32_t k, int from, const void **bytes, err *e);
void far_release(const rank_lane *a, uint32_t k, int from);
/* Sends what the rank wrote of crossing k to all ranks elsewhere that read it. */
int far_post(const rank_lane *a, uint32_t k, const void *bytes, err *e);
/* Waits until nobody reads any longer what the rank sent in the step that had this place before. */
int far_enter(const rank_lane *a, err *e);
