/* memory_quota.c - see memory_quota.h. */
#include "net/memory_quota.h"

#include "base/cond.h"

#define ENDS_WITHIN 1.0 /* seconds for which who ends is waited for */

int quota_refuse(const memory_quota *of, uint64_t lends, uint64_t needs, err *e)
{
    const bool large = lends >> 30 != 0;
    const double unit = large ? 0x1p30 : 0x1p20;
    const bool others = of->most && needs <= of->most; /* who will give it back */
    return err_set(e, others ? ERR_BUSY : ERR_MEMORY, "it lends %.1f %s%s, its part needs %.1f", (double)lends / unit,
                   large ? "GiB" : "MiB", others ? " beside other leaders" : "", (double)needs / unit);
}

void quota_open(memory_quota *of, uint64_t most)
{
    *of = (memory_quota){.most = most};
    pthread_mutex_init(&of->lock, NULL);
    cond_open(&of->returned);
}

void quota_close(memory_quota *of)
{
    pthread_mutex_destroy(&of->lock);
    pthread_cond_destroy(&of->returned);
}

/* Under the lock. */
static uint64_t free_bytes(const memory_quota *of, uint64_t held)
{
    const uint64_t others = of->taken - held;
    return !of->most ? UINT64_MAX : of->most > others ? of->most - others : 0;
}

int quota_take(memory_quota *of, uint64_t *held, uint64_t needs, uint64_t besides, err *e)
{
    const double until = clock_now() + ENDS_WITHIN;
    bool in_time = true;
    pthread_mutex_lock(&of->lock);
    while (needs > free_bytes(of, *held) && of->ending && in_time) in_time = cond_wait(&of->returned, &of->lock, until);
    const uint64_t free = free_bytes(of, *held);
    if (needs <= free) {
        of->taken += needs - *held;
        *held = needs;
    }
    pthread_mutex_unlock(&of->lock);
    return needs <= free ? OK : quota_refuse(of, free + besides, needs + besides, e);
}

uint64_t quota_left(memory_quota *of)
{
    pthread_mutex_lock(&of->lock);
    const uint64_t left = free_bytes(of, 0);
    pthread_mutex_unlock(&of->lock);
    return left;
}

uint64_t quota_taken(memory_quota *of)
{
    pthread_mutex_lock(&of->lock);
    const uint64_t taken = of->taken;
    pthread_mutex_unlock(&of->lock);
    return taken;
}

void quota_return(memory_quota *of, uint64_t *held)
{
    pthread_mutex_lock(&of->lock);
    of->taken -= *held;
    *held = 0;
    pthread_cond_broadcast(&of->returned);
    pthread_mutex_unlock(&of->lock);
}

static void count_ending(memory_quota *of, int more)
{
    pthread_mutex_lock(&of->lock);
    of->ending += more;
    pthread_cond_broadcast(&of->returned);
    pthread_mutex_unlock(&of->lock);
}

void quota_expect(memory_quota *of) { count_ending(of, 1); }
void quota_expect_less(memory_quota *of) { count_ending(of, -1); }
