/* pool.c - see pool.h.
 *
 * One word counts phases: it moves when all workers have arrived, and whoever waits watches it. Starting a function is
 * a word of the same kind. */
#define _GNU_SOURCE
#include "base/pool.h"

#include "base/mem.h"
#include "base/signal_word.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 64, WORKERS_MAX = 1024 };

typedef struct worker_start {
    pool *owner;
    int index;
} worker_start;

struct pool {
    signal_word start; /* moves when a function is given out */
    signal_word phase; /* moves when a barrier is complete */
    _Alignas(LINE) atomic_uint arrived;
    _Alignas(LINE) pool_fn fn;
    void *arg;
    bool stop;
    int workers, started;
    pthread_t *threads;
    worker_start *starts;
};

void pool_barrier(pool *p, int worker) { pool_barrier_do(p, worker, NULL, NULL); }

void pool_barrier_do(pool *p, int worker, pool_alone alone, void *arg)
{
    (void)worker;
    if (p->workers == 1) {
        if (alone) alone(arg);
        return;
    }
    const unsigned now = signal_now(&p->phase); /* cannot move before this worker arrives */
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == (unsigned)p->workers) {
        if (alone) alone(arg);
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        signal_move(&p->phase);
    } else {
        signal_wait(&p->phase, now, SIGNAL_SPINS);
    }
}

static void *worker_main(void *arg)
{
    const worker_start *s = arg;
    pool *p = s->owner;
    for (unsigned seen = 0;;) {
        signal_wait(&p->start, seen++, SIGNAL_SPINS);
        if (p->stop) return NULL;
        p->fn(p->arg, s->index, p->workers);
        pool_barrier(p, s->index);
    }
}

void pool_run(pool *p, pool_fn fn, void *arg)
{
    p->fn = fn;
    p->arg = arg;
    if (p->workers > 1) signal_move(&p->start);
    fn(arg, 0, p->workers);
    pool_barrier(p, 0);
}

int pool_open(pool **out, int workers, err *e)
{
    *out = NULL;
    if (workers < 1 || workers > WORKERS_MAX)
        return err_set(e, ERR_USAGE, "%d threads: 1 to %d are possible", workers, WORKERS_MAX);
    pool *p = mem_map(sizeof *p); /* aligned and cleared */
    if (!p) return err_set(e, ERR_MEMORY, "out of memory for a pool of %d threads", workers);
    p->workers = workers;
    p->threads = mem_array((size_t)workers, sizeof *p->threads);
    p->starts = mem_array((size_t)workers, sizeof *p->starts);
    if (!p->threads || !p->starts) {
        pool_close(p);
        return err_set(e, ERR_MEMORY, "out of memory for a pool of %d threads", workers);
    }
    for (int i = 1; i < workers; i++) {
        p->starts[i] = (worker_start){p, i};
        int rc = pthread_create(&p->threads[i], NULL, worker_main, &p->starts[i]);
        if (rc) {
            err_set(e, ERR_IO, "cannot start thread %d of %d: %s", i + 1, workers, strerror(rc));
            pool_close(p);
            return ERR_IO;
        }
        p->started++;
    }
    *out = p;
    return OK;
}

void pool_close(pool *p)
{
    if (!p) return;
    p->stop = true;
    if (p->started) signal_move(&p->start);
    for (int i = 1; i <= p->started; i++) pthread_join(p->threads[i], NULL);
    mem_free(p->threads);
    mem_free(p->starts);
    mem_unmap(p, sizeof *p);
}

int pool_workers(const pool *p) { return p->workers; }

/* First line of a small file of the kernel; false when it cannot be read. */
static bool line_read(const char *path, char *line, int cap)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, cap, f) != NULL;
    fclose(f);
    return ok;
}

/* Cores' worth of time that control groups allow, 0 = no limit: version 2 has "quota period" in cpu.max of this group
 * and each above it, version 1 two files. */
static double quota_cores(void)
{
    char line[512], path[700], group[512] = "";
    double least = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "0::", 3) == 0) snprintf(group, sizeof group, "%s", line + 3);
    }
    if (f) fclose(f);
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", strcmp(group, "/") == 0 ? "" : group);
        double quota, period;
        if (line_read(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 &&
            quota > 0)
            if (least == 0 || quota / period < least) least = quota / period;
        char *slash = strrchr(group, '/');
        if (!slash) break;
        *slash = 0;
    }
    static const char *const v1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    for (size_t i = 0; i < sizeof v1 / sizeof *v1; i++) {
        double quota = 0, period = 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", v1[i]);
        if (!line_read(path, line, sizeof line) || (quota = strtod(line, NULL)) <= 0) continue;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", v1[i]);
        if (!line_read(path, line, sizeof line) || (period = strtod(line, NULL)) <= 0) continue;
        if (least == 0 || quota / period < least) least = quota / period;
    }
    return least;
}

int pool_default_threads(void)
{
    int n = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        n = CPU_COUNT(&set);
    } else { /* more cores than the set holds */
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        if (online > 0) n = (int)online;
    }
    double quota = quota_cores();
    if (quota > 0 && quota < n) n = quota < 1 ? 1 : (int)quota;
    if (n > WORKERS_MAX) n = WORKERS_MAX;
    return n < 1 ? 1 : n;
}
