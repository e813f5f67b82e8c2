/* memory_quota.c - see memory_quota.h. */
#include "net/memory_quota.h"

int quota_refuse(const memory_quota *of, uint64_t lends, uint64_t needs, err *e)
{
    const bool large = lends >> 30 != 0;
    const double unit = large ? 0x1p30 : 0x1p20;
    const bool others = of->most && needs <= of->most; /* who will give it back */
    return err_set(e, others ? ERR_BUSY : ERR_MEMORY, "it lends %.1f %s%s, its part needs %.1f", (double)lends / unit,
                   large ? "GiB" : "MiB", others ? " beside other leaders" : "", (double)needs / unit);
}

int quota_take(memory_quota *of, uint64_t *held, uint64_t needs, err *e)
{
    pthread_mutex_lock(&of->lock);
    const uint64_t others = of->taken - *held, free = of->most > others ? of->most - others : 0;
    const bool fits = !of->most || needs <= free;
    if (fits) {
        of->taken = others + needs;
        *held = needs;
    }
    pthread_mutex_unlock(&of->lock);
    return fits ? OK : quota_refuse(of, free, needs, e);
}

uint64_t quota_left(memory_quota *of)
{
    pthread_mutex_lock(&of->lock);
    const uint64_t left = !of->most ? UINT64_MAX : of->most > of->taken ? of->most - of->taken : 0;
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
    pthread_mutex_unlock(&of->lock);
}
