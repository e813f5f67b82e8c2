/* plan_show.h - what lies on which device, as text and as JSON, and what a step reads of it. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "plan/plan.h"

/* Bytes of weights that a step of `rows` token rows reads, on all devices (step_cost_weights), and the weights that
 * multiply one row (count, NULL ok). */
uint64_t plan_weight_bytes(const plan *l, int64_t rows, uint64_t *count);
const char *plan_isa(const plan *l);        /* of the first device that is not on a node; "": there is none */
const char *plan_exact_note(const plan *l); /* the first of the devices here (backend.exact_note); NULL: none */
void plan_tell(const plan *l, json *to);    /* what that device has chosen by measurement (backend.tell) */

/* "a:7071/cpu:2" */
enum { PLAN_DEVICE_NAME = 320 };
const char *plan_device_name(const plan *l, int i, char to[PLAN_DEVICE_NAME]);

/* What lies on which device, a line each, and what they hand over; with `dump` also each segment's ops. */
int plan_text(const plan *l, bool dump, buf *out, err *e);
/* The same as members of an object. An edge is what one group hands to another ("move": from the group `from` to the
 * group `to`) or to the leader ("result": to -1), or the ranks of a group to each other ("gather", "reduce"). Its
 * bytes are those of a whole row; of a reduction, of a rank's partial sums. seconds: [plan_segments] that each device
 * computes for a token; NULL: not known. */
int plan_json(const plan *l, const double *seconds, json *root, err *e);
