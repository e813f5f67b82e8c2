/* pages.h - who holds which page of the KV cache.
 *
 * A page is 64 positions of every state of a group (states with the same attention window). It may have several
 * holders. One that nobody holds is free or, where it has a node (prefix_tree.h), kept: until it is needed for
 * something else it can be found again. Of kept pages the one that was given back first goes first.
 *
 * Nothing is reserved: a sequence takes pages as it grows, and where there is none another one gives its own up
 * (engine/schedule.c). Slots, which are of no position, are counted in the same way (text_slots.c). */
#pragma once
#include "base/err.h"
#include "core/program.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct page_use {
    int32_t holders, node; /* node: in the tree of prefixes; -1: none */
    int32_t older, newer;  /* among kept pages; -1: none */
} page_use;

typedef struct page_pool {
    int32_t *free_pages; /* stack: the page freed last is given out first, it may still be in cache */
    page_use *use;       /* [total] */
    int32_t n_free, n_kept, total;
    int32_t oldest, newest; /* of the kept; -1: none */
} page_pool;

int pages_open(page_pool *p, int32_t total, err *e);
void pages_close(page_pool *p);
int32_t pages_take(page_pool *p); /* a free page, for one holder; there must be one */
void pages_hold(page_pool *p, int32_t page);
void pages_give(page_pool *p, int32_t page); /* one holder less */
/* A page that is kept becomes free. The caller has taken its node away. */
void pages_drop(page_pool *p, int32_t page);

/* The maximum of pages that a sequence of `length` positions holds at once, in chunks of at most `chunk` rows. */
int32_t pages_needed(int64_t length, int32_t window, int64_t chunk);

/* Pages of a group for `n` sequences of `ctx` positions, so that all groups together take at most `budget` bytes but
 * one sequence always fits. `bytes` [group]: one page of every state of the group. */
void pages_plan(const program *p, const uint64_t bytes[GROUP_MAX], int n, int64_t ctx, int64_t chunk, uint64_t budget,
                int32_t total[GROUP_MAX]);
