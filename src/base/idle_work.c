/* idle_work.c - see idle_work.h. */
#define _GNU_SOURCE
#include "base/idle_work.h"

#include "base/clock.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE_LAST = 19, IO_WHO_THREAD = 1, IO_CLASS_IDLE = 3 << 13, REST_TIMES = 100 };
#define REST_LEAST 10.0

void idle_begin(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE_LAST);
    syscall(SYS_ioprio_set, IO_WHO_THREAD, 0, IO_CLASS_IDLE);
}

void idle_sleep(double seconds)
{
    const struct timespec t = clock_timespec(seconds);
    nanosleep(&t, NULL);
}

double idle_rest(uint64_t bytes)
{
    const double rest = REST_TIMES * (double)bytes / IDLE_RATE;
    return rest > REST_LEAST ? rest : REST_LEAST;
}
