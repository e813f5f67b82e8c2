/* plan_show.h - what lies on which device, as text and as JSON, and what a step reads of it. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "plan/plan.h"

/* Bytes of weights that a step of `rows` token rows reads (without rows of embedding tables), and the weights that
 * multiply one row (count, NULL ok). Experts: the expected number touched, assuming rows pick uniformly and
 * independently. */
uint64_t plan_weight_bytes(const plan *l, int64_t rows, uint64_t *count);
const char *plan_isa(const plan *l); /* of the first device */

/* Which layers and bytes land on which device; with `dump` also each segment's ops. */
bool plan_text(const plan *l, bool dump, buf *out);
/* The same as members "ranks" and "edges" of an object. */
void plan_json(const plan *l, json *root);
