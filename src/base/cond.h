/* cond.h - condition variables that are waited for until a time of clock_now. */
#pragma once
#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>

static inline void cond_open(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

/* Waits under the lock; false: it is later than `until` (INFINITY: as long as it takes). True says nothing of what is
 * waited for. */
static inline bool cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until)
{
    if (isinf(until)) return pthread_cond_wait(c, lock) == 0;
    const struct timespec at = clock_timespec(until);
    return pthread_cond_timedwait(c, lock, &at) == 0;
}
