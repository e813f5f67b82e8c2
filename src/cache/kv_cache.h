/* kv_cache.h - the KV cache of a model: its pages, by groups, its slots, and the prefixes by which texts find them.
 *
 * The devices have the bytes (core/backend.h); here is counted who holds what. Texts hold pages (cache_text.h), share
 * them (prefix_share.h) and find them on disk (disk_cache.h). All of it is of one thread. */
#pragma once
#include "cache/prefix_tree.h"
#include "core/backend.h"

typedef struct disk_cache disk_cache;

typedef struct kv_cache {
    const program *p;           /* whose states they are */
    page_pool pages[GROUP_MAX]; /* [n_group] */
    page_pool slots;            /* two for each text, and some for snapshots, if the program has any */
    int slot_rows;              /* rows that each can keep apart */
    prefix_tree tree;           /* of pages of texts, and of snapshots */
    disk_cache *disk;           /* NULL: none are kept there */
    page_copy *copies;          /* [n_copy] before the next step: as many as pages at most, each the target of one */
    int32_t n_copy;
} kv_cache;

/* As many pages and slots as `of` says. The program must outlive it. */
int kv_open(kv_cache *c, const program *p, const cache_options *of, err *e);
void kv_close(kv_cache *c);          /* {0} ok; the disk cache was closed before */
int32_t kv_pages(const kv_cache *c); /* of all groups */

/* One holder less; *page becomes -1. Nothing is copied to it. */
void kv_give_page(kv_cache *c, uint32_t group, int32_t *page);
/* Page `to` becomes a copy of `from` before the next step, which holds `from` until then. */
void kv_copy_page(kv_cache *c, uint32_t group, int32_t from, int32_t to);
/* A step with these copies was sent: `from` of each is given back. */
void kv_copied(kv_cache *c, const page_copy *copies, int32_t n);

/* The first page that a row at position `pos` sees. */
static inline int64_t kv_first_seen(int32_t window, int64_t pos)
{
    return window && pos >= window ? (pos - window + 1) / PAGE_TOKENS : 0;
}
