/* turns.h - whose turn a device is: of the lanes of a rank, which each have a step.
 *
 * A lane has the turn for a stretch and to take its rows out of the device, gives it away while the rows pass between
 * ranks, and takes it again to put rows in. So calls on a device come one at a time.
 *
 * Stretch i of a step comes after stretch i of the step before, and after the last one there that touches a state which
 * stretch i touches; with pages to copy, after all of them. So a step finds every state as if steps came one after
 * another, results have the same bits whichever lane is faster, and ranks need not agree on turns. There is no
 * deadlock: a lane never waits for other ranks while it holds the device, and steps wait for earlier ones only. */
#pragma once
#include "plan/plan_state.h"

int turns_open(plan_rank *r, err *e);
void turns_close(plan_rank *r); /* also after turns_open failed */

/* Waits for the turn, for a stretch of a step; to move rows. */
void turn_take(rank_lane *a, uint32_t stretch, const step *st);
void turn_take_for_rows(rank_lane *a);
/* `reached`: stretches of the step that are over. */
void turn_give(rank_lane *a, uint32_t reached);
