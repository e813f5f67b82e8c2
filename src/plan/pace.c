/* pace.c - see pace.h. */
#include "plan/pace.h"

#include "base/clock.h"
#include "plan/step_cost.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static const double LATE_MAX = 0.002, RATE_MAX = 1e6;

int pace_parse(pace *out, const char *text, err *e)
{
    char *end;
    const double read = strtod(text, &end);
    const double ops = *end == ',' ? strtod(end + 1, &end) : 0;
    if (*end || !(read > 0 && read <= RATE_MAX) || !(ops > 0 && ops <= RATE_MAX))
        return err_set(e, ERR_USAGE, "--as %s: expected two positive numbers, GB/s and GOP/s, as in 40,800", text);
    *out = (pace){read * 1e9, ops * 1e9};
    return OK;
}

static void sleep_until(double until)
{
    const struct timespec t = clock_timespec(until);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

void pace_keep(const pace *as, const segment *s, uint32_t i, const step *st, const cache_options *cache, double start,
               double *late)
{
    step_cost c = {0};
    if (as->bytes_per_s <= 0) return;
    step_cost_add(&c, s->p, stretch_begin(s, i), s->ends[i], st, cache->k_type, cache->v_type);
    const double read = (c.weight_bytes + c.kv_bytes) / as->bytes_per_s,
                 compute = (c.flops + c.int8_ops) / as->ops_per_s;
    const double until = start + (read > compute ? read : compute) - *late;
    if (clock_now() < until) sleep_until(until);
    *late = clock_now() - until;
    if (*late > LATE_MAX) *late = LATE_MAX;
}
