/* pace.h - a device that takes as long as a slower one would: `node --as`, so that many machines can be tried on one.
 *
 * A stretch is over when the slower device would have read its bytes and done its operations, whichever takes longer
 * (both go on at once). Waiting is sleep, so other devices have the processor meanwhile. */
#pragma once
#include "core/backend.h"

typedef struct pace {
    double bytes_per_s, ops_per_s; /* 0: as fast as it is */
} pace;

/* "GB/s,GOP/s", as in "40,800". */
int pace_parse(pace *out, const char *text, err *e);
/* Called when stretch i of a step, begun at `start` (clock_now), is done: returns when it would be. *late: seconds by
 * which sleep lasted too long, taken off the next time. */
void pace_keep(const pace *as, const segment *s, uint32_t i, const step *st, const cache_options *cache, double start,
               double *late);
