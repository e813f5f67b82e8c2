/* steps.h - the steps of an engine that are under way: a ring of batches, filled in turn, collected in turn. */
#pragma once
#include "engine/batch.h"
#include "plan/drive.h"

#include <stdbool.h>

typedef struct step_ring {
    batch *rows; /* [in_flight] */
    int in_flight;
    uint64_t sent, collected;
} step_ring;

typedef struct batch_sizes {
    int rows, enc, outs, sequences; /* capacities, as of batch_open */
    int64_t ctx;
    int32_t copies; /* pages of all groups: each is the target of one copy at most */
} batch_sizes;

int steps_open(step_ring *r, const program *p, int in_flight, const batch_sizes *max, err *e);
void steps_close(step_ring *r); /* none may be under way */
/* Limits the rows and outputs of each step from now on; max: those that the plan was opened for, at most those of
 * steps_open. */
void steps_limit(step_ring *r, const batch_sizes *max);

static inline int steps_under_way(const step_ring *r) { return (int)(r->sent - r->collected); }

/* The batch of the next step, empty; NULL: as many are under way as may be. */
batch *steps_next(step_ring *r);
/* Sends what was added to it, with the copies of pages that are due: the rows of its sessions count as sent. False, and
 * nothing happens: it is empty. */
bool steps_send(step_ring *r, kv_cache *kv, plan *to);
/* Waits for the oldest step under way and returns its batch; *rc and e tell how it went. Its sessions are no longer in
 * it, but text_advance is the caller's. */
batch *steps_collect(step_ring *r, plan *from, int *rc, err *e);
/* It has failed, or is lost: so are its snapshots. */
void steps_lose_slots(kv_cache *kv, const batch *b);
