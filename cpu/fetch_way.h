/* fetch_way.h - how the bodies that stream weights for one or two rows fetch lines ahead of their use. Bits do not
 * depend on it. Which way is fastest depends on the kind of the weights and on the processor (SPEED.md), so it is
 * measured where it runs (cpu_fetch.c). */
#pragma once

typedef enum {
    FETCH_NEAR, /* to the first-level cache. It holds a miss buffer there: where these are few, it displaces others */
    FETCH_FAR,  /* beyond it: past the second level on x86, to the second level on Arm */
    FETCH_NONE, /* left to the hardware */
    FETCH_WAYS
} fetch_way;

enum { FETCH_ROWS = 2 }; /* rows of activations for which there is a choice, at most */
