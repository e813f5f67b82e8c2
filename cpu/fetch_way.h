/* fetch_way.h - how the bodies that stream weights for one or two rows fetch lines ahead of their use. Bits do not
 * depend on it. Which way is fastest depends on the kind of the weights and on the processor (SPEED.md), so it is
 * measured where it runs (cpu_fetch.c). */
#pragma once
#include <stdint.h>

typedef enum {
    FETCH_NEAR,  /* to the first-level cache. It holds a miss buffer there: where these are few, it displaces others */
    FETCH_FAR,   /* beyond it: past the second level on x86, to the second level on Arm */
    FETCH_NONE,  /* left to the hardware */
    FETCH_SPLIT, /* as four streams at once */
    FETCH_WAYS
} fetch_way;

/* FETCH_SPLIT: while a block of SPLIT_BLOCK bytes is read, the next one is fetched as four streams, to the first-level
 * cache. Hardware prefetchers stay within a page of 4 KiB and have few lines under way for each: where that is the
 * limit, four pages at once bring more. One line of each stream is fetched for four that are read. */
enum { SPLIT_BLOCK = 64 << 10, SPLIT_STREAMS = 4, SPLIT_APART = SPLIT_BLOCK / SPLIT_STREAMS };

/* Where to prefetch for line `line` of the lines that a loop reads from `at` - SPLIT_BLOCK on: each four lines of 64
 * bytes map to one line of each stream, in the order of the streams. */
static inline uintptr_t fetch_split(uintptr_t at, int line)
{
    at += (uintptr_t)(line / SPLIT_STREAMS * SPLIT_STREAMS * 64);
    return at / SPLIT_BLOCK * SPLIT_BLOCK + at % SPLIT_BLOCK / (SPLIT_STREAMS * 64) * 64 +
           (uintptr_t)(line % SPLIT_STREAMS * SPLIT_APART);
}

enum { FETCH_ROWS = 2 }; /* rows of activations for which there is a choice, at most */
