/* pool.h - the compute pool: a fixed set of threads that run one function together, with barriers that spin, then
 * sleep.
 *
 * One thread (the engine's) owns the pool and is its worker 0. When cores are oversubscribed a waiting worker soon
 * sleeps, so a descheduled partner costs little more than its own delay. */
#pragma once
#include "base/err.h"

typedef struct pool pool;

/* Threads this process may use: affinity mask and cgroup CPU quota respected, at least 1. */
int pool_default_threads(void);

int pool_open(pool **out, int workers, err *e); /* starts workers - 1 threads */
void pool_close(pool *p);                       /* NULL ok */
int pool_workers(const pool *p);

/* Runs fn(arg, worker, workers) on every worker, the caller included; returns when all are done. */
typedef void (*pool_fn)(void *arg, int worker, int workers);
void pool_run(pool *p, pool_fn fn, void *arg);

/* Inside fn: waits until every worker is here. All that was written before is visible after. */
void pool_barrier(pool *p, int worker);
/* The same; the last to come first runs alone(arg), while the others wait. Every worker names the same. */
typedef void (*pool_alone)(void *arg);
void pool_barrier_do(pool *p, int worker, pool_alone alone, void *arg);
