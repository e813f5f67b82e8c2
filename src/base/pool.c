/* pool.c - see pool.h.
 *
 * One word counts phases: it moves when all workers have arrived, and whoever waits watches it. Starting a function is
 * a word of the same kind. */
#define _GNU_SOURCE
#include "base/pool.h"

#include "base/cgroup.h"
#include "base/mem.h"
#include "base/signal_word.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
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
    double quota = cgroup_cores(&cgroup_here);
    if (quota > 0 && quota < n) n = quota < 1 ? 1 : (int)quota;
    if (n > WORKERS_MAX) n = WORKERS_MAX;
    return n < 1 ? 1 : n;
}
