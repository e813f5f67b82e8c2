/* plan.h - a program divided over devices, ready to run steps.
 *
 * Layers are cut only at cut points that liveness found (program.cuts): there the rest of the model needs only one
 * activation, which the segment on the next device takes over. Logits are the same bits however layers are divided. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "core/backend.h"

#include <stdbool.h>

typedef struct plan plan;

typedef struct plan_options {
    const char *devices;            /* notation of devices.h; NULL: everything on the best device */
    const backend *const *backends; /* NULL-terminated */
    dev_options dev;                /* for every device; "cpu:N" overrides threads */
} plan_options;

/* Cuts, places activations (tensor.off is written), opens devices, binds weights, compiles. The program and its
 * checkpoint must outlive the plan; a program has one plan at a time. */
int plan_open(plan **out, program *p, const plan_options *o, err *e);
void plan_close(plan *l); /* NULL ok */

/* Runs all segments of one step, handing the hidden state from each to the next. No allocation. */
int plan_step(plan *l, const step *st, err *e);

/* Rows of the result of HEAD, POOL or SCORES after plan_step; valid until the next step. */
const float *plan_result(const plan *l, int entry);
/* That of the head: [n[AXIS_OUT]][vocab]. */
const float *plan_logits(const plan *l);

/* Copies one KV page on every device. */
int plan_page_copy(plan *l, int group, int32_t from, int32_t to, int tokens, err *e);

int plan_segments(const plan *l);
const segment *plan_segment(const plan *l, int i);

/* Bytes of weights that a step of `rows` token rows reads (without rows of embedding tables), and the weights that
 * multiply one row (count, NULL ok). Experts: the expected number touched, assuming rows pick uniformly and
 * independently. */
uint64_t plan_weight_bytes(const plan *l, int64_t rows, uint64_t *count);
const char *plan_isa(const plan *l); /* of the first device */

/* Which layers and bytes land on which device; with `dump` also each segment's ops. */
bool plan_text(const plan *l, bool dump, buf *out);
/* The same as members "ranks" and "edges" of an object. */
void plan_json(const plan *l, json *root);
