/* joined.h - groups whose devices do a step together, one backend having them all (join_ways): rows pass between them
 * without the host. The first rank's thread has such a step, the others wait until it is over.
 *
 * Steps with taps go rank by rank (rank_exchange.h), and so does a step again of which coded rows were not finite: then
 * the faults are found by row. Groups with ranks in other processes, of several backends, or at pretended speeds are
 * never joined; nor is a sum that goes round a ring, whose bits are others. */
#pragma once
#include "plan/plan_state.h"

int joined_open(plan *l, plan_group *g, err *e);
void joined_close(plan_group *g);
/* Waits until the rank may do its step; false: others have done it. *leads: it does the step of all ranks. */
bool joined_enter(const rank_lane *a, flight *f, bool *leads);
/* The rank that leads leaves the step to each rank. */
void joined_leave(const rank_lane *a, flight *f);
