/* rank_exchange.h - a collective of a step: rows go from the devices of a group to each other. */
#pragma once
#include "plan/plan_state.h"

/* The link of a group, and memory for the largest exchange of each rank. */
int rank_exchange_open(plan *l, plan_group *g, err *e);
void rank_exchange_close(plan *l, plan_group *g);

/* Waits until rows of the next collective have a place. Before the lane takes the turn for the stretch. */
void rank_exchange_enter(rank_lane *a, int *rc, err *e);
/* Collective `number` of the step, after the stretch of that number: takes rows out of the device, then gives the turn
 * away. When *rc is set on entry, the rank's device has failed: it still gives bytes, so that the others, which need
 * not know yet, do not wait. Both set *rc and e when something fails here. */
void rank_exchange(rank_lane *a, const cut_coll *k, uint32_t number, const step *st, int *rc, err *e);

/* Shows columns c of an activation of the whole program, [rows, their number], to the taps of a step that have memory
 * for its rows: of what ranks have in parts nobody else can. */
void step_tap_columns(const step *st, const program *p, ref t, cut_range c, int64_t rows, const float *from);
