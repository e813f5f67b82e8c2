/* rank_pass.h - what a rank hands to ranks in other processes: on the channels of a link between all ranks of a plan.
 * The first are for collectives; then each step under way has one for every crossing. */
#pragma once
#include "plan/plan_state.h"

/* Columns of an input that a rank elsewhere wrote in step `number`: waits for them; until far_release. */
int far_take(const plan *l, plan_rank *r, uint64_t number, uint32_t k, int from, const void **bytes, err *e);
void far_release(const plan *l, plan_rank *r, uint64_t number, uint32_t k, int from);
/* Sends what rank r wrote of crossing k to all ranks elsewhere that read it. */
int far_post(const plan *l, plan_rank *r, uint64_t number, uint32_t k, const void *bytes, err *e);
/* Waits until nobody reads any longer what r sent in the step that had this place before. */
int far_enter(const plan *l, plan_rank *r, uint64_t number, err *e);
