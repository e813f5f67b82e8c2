/* chunk_steal.h - the chunks of an op are dealt out to workers: each has its own run of them, and steals from others
 * when that is done.
 *
 * The owner takes chunks from the front (one sequential stream of weights); helpers steal from the back. So a worker
 * whose core is busy with something else delays the others by one chunk, not by its whole share. Which worker computes
 * a chunk changes no bit. A run is one atomic word (turn of the op, first chunk, end). All workers count ops the same
 * way; a word of an earlier turn stands for the full run of this turn, so nothing is prepared, and the run of a worker
 * that has not arrived yet can be stolen from. */
#pragma once
#include "cpu/cpu.h"

#include <stdatomic.h>

/* An array has one for each worker, and one more for steps that run on one thread alone, because those would make the
 * workers' counts differ. */
struct chunk_run {
    _Alignas(64) _Atomic uint64_t word; /* turn 16 bits, first 24, end 24 */
    uint32_t turn;                      /* ops dealt so far: this worker's own count */
};

enum { STEAL_BITS = 24, STEAL_MAX = (1 << STEAL_BITS) - 1 };

typedef struct chunk_steal {
    chunk_run *runs;
    int worker, workers;
    uint32_t turn;
    int64_t chunks; /* <= STEAL_MAX */
    bool in_order;  /* all chunks are in one run: taken ascending by everybody */
} chunk_steal;

static inline uint64_t steal_word(uint32_t turn, int64_t first, int64_t end)
{
    return (uint64_t)(turn & 0xffff) << 2 * STEAL_BITS | (uint64_t)first << STEAL_BITS | (uint64_t)end;
}

/* Every worker calls it once per op, with equal arguments. */
static inline chunk_steal steal_start(const run *r, int worker, int workers, int64_t chunks, bool in_order)
{
    const cpu_work *work = &r->on->work;
    chunk_run *runs = workers == 1 ? work->solo : work->runs;
    return (chunk_steal){runs, worker, workers, ++runs[worker].turn, chunks, in_order};
}

/* One chunk of the run of `whose`, or -1: from its front for the owner, else from its back. */
static inline int64_t steal_take(const chunk_steal *d, int whose)
{
    _Atomic uint64_t *at = &d->runs[whose].word;
    uint64_t was = atomic_load_explicit(at, memory_order_relaxed);
    for (;;) {
        int16_t age = (int16_t)(uint16_t)(d->turn - (uint32_t)(was >> 2 * STEAL_BITS)); /* turns wrap at 16 bits */
        int64_t first = (int64_t)(was >> STEAL_BITS & STEAL_MAX), end = (int64_t)(was & STEAL_MAX);
        if (age < 0) return -1; /* its owner is at a later op: nothing is left of this one */
        if (age > 0) {
            first = d->in_order ? 0 : d->chunks * whose / d->workers;
            end = d->in_order ? (whose == 0 ? d->chunks : 0) : d->chunks * (whose + 1) / d->workers;
        }
        if (first >= end) { /* the owner keeps an empty run's turn fresh: after a wrap it must not seem to lie ahead */
            if (age > 0 && whose == d->worker)
                atomic_compare_exchange_strong_explicit(at, &was, steal_word(d->turn, first, end), memory_order_relaxed,
                                                        memory_order_relaxed);
            return -1;
        }
        bool front = d->in_order || whose == d->worker;
        uint64_t now = front ? steal_word(d->turn, first + 1, end) : steal_word(d->turn, first, end - 1);
        if (atomic_compare_exchange_weak_explicit(at, &was, now, memory_order_relaxed, memory_order_relaxed))
            return front ? first : end - 1;
    }
}

/* The next chunk for this worker, -1 when all are taken. */
static inline int64_t steal_next(const chunk_steal *d)
{
    if (d->in_order) return steal_take(d, 0);
    for (int i = 0; i < d->workers; i++) {
        int64_t c = steal_take(d, (d->worker + i) % d->workers);
        if (c >= 0) return c;
    }
    return -1;
}
