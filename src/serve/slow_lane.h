/* slow_lane.h - one thread that carries out what would hold up others, one after the other, in the order in which it
 * came: requests with so long a body that to parse and tokenize it takes a good part of a second. */
#pragma once
#include "base/err.h"

#include <stdbool.h>

typedef struct slow_lane slow_lane;

/* A place in the queue, a member of what is to be done: memory of the caller until `done` is called. */
typedef struct slow_work {
    struct slow_work *next;
    void (*run)(struct slow_work *w);  /* does it */
    void (*done)(struct slow_work *w); /* it was done, or, as the lane ends, will not be: after this it may be gone */
} slow_work;

int slow_lane_open(slow_lane **out, err *e);
int slow_lane_waiting(slow_lane *l);
/* Of a lane that has ended: `done` is called at once. */
void slow_lane_put(slow_lane *l, slow_work *w);
/* Waits for what is under way; what waits is not done any more. */
void slow_lane_end(slow_lane *l);
void slow_lane_close(slow_lane *l); /* NULL ok */
