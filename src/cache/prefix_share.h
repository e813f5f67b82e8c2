/* prefix_share.h - texts that begin alike share pages (prefix_tree.h); those on disk are as good (disk_cache.h).
 *
 * A text goes from node to node: of its n_shared first pages the last is of t->prefix. Where the pages of the next
 * nodes are there it takes them and computes what comes after. Nodes that it will fill itself it reserves beforehand;
 * another text that needs them waits for them, page by page. Who has reserved something does not wait, so that nobody
 * waits in a circle; when it leaves, its reservations go, and who waited goes on alone.
 *
 * Where the model has states of fixed size, a text can go on only after a node with a snapshot of them (text_slots.h),
 * which every fourth may have. It waits for, and reserves, four nodes at a time; pages after the last snapshot it
 * computes again. */
#pragma once
#include "cache/cache_text.h"
#include "cache/disk_cache.h"

/* A text that has its rope tables gets a root of the tree, if it may share at all. */
void prefix_join(kv_cache *c, cache_text *t);
void prefix_leave(kv_cache *c, cache_text *t);
void prefix_release(kv_cache *c, cache_text *t); /* what it had reserved others may fill */
/* Before it computes, of a text of n tokens: it goes on after the pages of its prefix that are there, unless it
 * computes all itself (`alone`), and reserves those that it will fill. False: another text is about to fill the next
 * one, or more come from disk, and this one waits. */
bool prefix_follow(kv_cache *c, cache_text *t, int64_t n, bool alone, const disk_turn *now);
/* n more tokens are in the cache, of a step that was collected without an error: full pages get nodes, pages that fell
 * out of a window are given back. */
void text_advance(kv_cache *c, cache_text *t, int64_t n);
/* `to`, another beam or choice, goes on with the text of `from`, the same ids: they share full pages and the slot, and
 * `to` gets a copy of the last page; where there is no page for that, it starts again. */
void text_copy(kv_cache *c, cache_text *to, const cache_text *from);
