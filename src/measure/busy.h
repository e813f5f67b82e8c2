/* busy.h - how much of a time devices computed, and whether some of them pretend to be others. */
#pragma once
#include "engine/engine.h"

/* What the devices of an engine have computed until some moment. */
typedef struct busy_marks {
    engine_device *of; /* [n] */
    int n;
} busy_marks;

int busy_open(busy_marks *m, const engine *g, err *e); /* now */
void busy_close(busy_marks *m);
void busy_mark(busy_marks *m, const engine *g); /* now */
/* Seconds that device i has computed since. */
double busy_of(const busy_marks *m, const engine *g, int i);
/* The part of the `seconds` since then that computing does not explain. Ranks of a group compute at once: the one that
 * took longest counts. Groups compute one after another; where they were at work at once, the one that took longest
 * counts. */
double busy_rest(const busy_marks *m, const engine *g, double seconds);
/* node --as of the first device that pretends; NULL: none does. */
const char *busy_as(const busy_marks *m);
