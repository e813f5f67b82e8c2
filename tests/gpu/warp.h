/* warp.h - a warp's lanes: where each group of them is in the code. */
#pragma once
#include "tests/gpu/machine.h"

/* Lets lanes of mask, which are of the running group, go on by themselves at the next instruction; the rest of the
 * group has gone past it. */
group *warp_take(warp *w, uint32_t mask);
/* Runs a warp until it waits, ends, or the budget is used; tells how many instructions. */
int64_t warp_run(warp *w, int64_t budget);
/* True when every living lane of members is in mask; else the lanes wait for the others. */
bool warp_together(warp *w, uint32_t mask, uint32_t members);
/* The running group sleeps: the warp's turn is over, and a group beside it has the next one. */
void warp_sleep(warp *w);
/* Lanes have ended. */
void warp_end(warp *w, uint32_t mask);
