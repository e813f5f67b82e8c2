/* row_faults.h - rows between devices that are no numbers: of a step, by sequence, the first such row.
 *
 * A codec that cannot hold a row decodes it as NaN or infinity (tensor/wire.h), and what follows from that may look
 * like numbers again, so it is noticed where it happens: rows are looked at before they are coded and after. Floats
 * that pass as they are need no look: what is in them arrives. */
#pragma once
#include "plan/plan_state.h"

/* Rows of an activation of the whole program; some of their columns. */
typedef struct rows_seen {
    ref t;
    bool coded; /* after they passed */
    int rank;   /* that looks */
    const float *rows;
    int64_t n, width;
} rows_seen;

void row_faults_find(plan *l, flight *f, const rows_seen *s);
/* One that was found elsewhere, in sequence k; under the driver's lock. */
void row_fault_note(flight *f, int32_t k, const row_fault *x);
