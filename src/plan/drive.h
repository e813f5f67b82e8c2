/* drive.h - steps on their way through the devices of a plan.
 *
 * With several devices several steps are under way: each device has a thread that takes them in the order in which they
 * were sent, so one device works on a step while the next works on the step before. */
#pragma once
#include "plan/plan.h"

/* Steps that may be under way: sent and not collected. */
int plan_in_flight(const plan *l);
/* Sends a step, which stays as it is until it is collected. At most plan_in_flight of them. No allocation. */
void plan_send(plan *l, const step *st);
/* Waits for the oldest step that was sent. Its results are valid until as many others were sent as may be under way.
 * An error is of that step alone: the message is the device's. */
int plan_collect(plan *l, err *e);
/* Rows of the result of HEAD, POOL or SCORES of the step collected last; rows that it wants only the best of are not
 * there, but at plan_best. */
const float *plan_result(const plan *l, int entry);
const best_logit *plan_best(const plan *l, int32_t row); /* as many as the step wants of the row, by id */
/* Of the step that was collected last, by sequence, rows between devices that were no numbers, or became none because
 * a codec cannot hold them; NULL: there are none. Results of such sequences are worth nothing. */
const row_fault *plan_faults(const plan *l);
int32_t plan_sequences(const plan *l); /* of that step */
