/* tally.h - what a node has done for leaders since it began: counters that its leases add to, from any thread. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

typedef struct tally {
    atomic_ullong leases, refused;    /* asked for, and of these not granted */
    atomic_ullong trials;             /* collectives that were measured */
    atomic_ullong steps, nanoseconds; /* done here; in which ranks here computed */
} tally;

static inline void tally_step(tally *t, double seconds)
{
    atomic_fetch_add_explicit(&t->steps, 1, memory_order_relaxed);
    if (seconds > 0) atomic_fetch_add_explicit(&t->nanoseconds, (uint64_t)(seconds * 1e9), memory_order_relaxed);
}
