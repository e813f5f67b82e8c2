/* prefix_tree.h - the tree of prefixes, by which texts that begin alike share full pages: prefix caching.
 *
 * A node is 64 ids after those of its parent; the ids from a root to it are a prefix of texts. Roots stand for all else
 * that keys and values depend on (rope tables) and for whom they are kept. Two pages of one node have the same bits,
 * because results do not depend on batch or chunk. A node is found by a hash over its parent and its ids, which are
 * then compared.
 *
 * A node has a page in each group, or none where a window has left it, or where it was needed for something else. Where
 * the model has states of fixed size, every fourth node may have a slot with those after its last id: a snapshot. It is
 * held, kept and given up as pages are; slots are one more group of the tree, after the others.
 *
 * A node lives while it has a page, or a user: a node after it, or a text that has come to it or is about to fill
 * it. */
#pragma once
#include "base/sha256.h"
#include "cache/pages.h"

enum { SNAPSHOT_PAGES = 4, SNAPSHOT_TOKENS = SNAPSHOT_PAGES * PAGE_TOKENS };

typedef struct prefix_node {
    int32_t parent;               /* -1: a root */
    int32_t next;                 /* in its bucket, or of the free ones; -1: none */
    int32_t users;                /* nodes after it, and texts */
    int32_t after;                /* nodes after it */
    int32_t depth, asked;         /* pages up to it, -1: it is free; of the prompt of the text that has filled it */
    int32_t end, end_asked;       /* of the last node after it: snapshot_worth.c */
    int32_t page[GROUP_MAX + 1];  /* -1: none */
    const void *owner;            /* the text whose next steps fill its pages; NULL: none */
    bool parts;                   /* a text goes on after it that has found no snapshot there */
    int32_t ids[PAGE_TOKENS];     /* of a root: what tells it from others */
    uint8_t digest[SHA256_BYTES]; /* of all ids from the root on: tree_digest */
} prefix_node;

typedef struct snapshot_log snapshot_log; /* snapshot_worth.h */
typedef struct prefix_tree prefix_tree;
struct prefix_tree {
    prefix_node *node;
    int32_t *bucket;                /* [cap] */
    int32_t n, cap, free;           /* nodes that were ever used; the first that is free again, -1: none */
    page_pool *pool[GROUP_MAX + 1]; /* [n_group] of whom opened it */
    int n_group;                    /* with that of slots */
    int slots;                      /* which that is; -1: there are none */
    /* Set by the opener: groups, a bit each, without whose pages no text can go on; where there are slots, what is
     * known of snapshots, and which of those that are kept makes room. */
    uint32_t needed;
    snapshot_log *log;
    int32_t (*least_slot)(prefix_tree *t);
};

/* For pages of these [n_group] pools, and for slots, unless this pool is empty; they are open and outlive the tree. */
int tree_open(prefix_tree *t, page_pool *pool, int n_group, page_pool *slots, err *e);
void tree_close(prefix_tree *t);

/* The digest of the node of 64 ids after the one with digest `parent`; NULL: of a root. */
void tree_digest(const uint8_t *parent, const int32_t ids[PAGE_TOKENS], uint8_t digest[SHA256_BYTES]);

/* The node of 64 ids after `parent` (-1: a root); -1: there is none. */
int32_t tree_find(const prefix_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS]);
/* That node, made where there is none, with one more user; -1: no node is left. */
int32_t tree_use(prefix_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS]);
void tree_hold(prefix_tree *t, int32_t node); /* one more user */
void tree_drop(prefix_tree *t, int32_t node); /* one less: it, and those before it, may be gone */

uint32_t tree_groups(const prefix_tree *t, int32_t node); /* those in which it has a page, a bit each */
/* Gives a node a page that somebody holds, unless the page has a node, or this one a page in the group already. */
void tree_put(prefix_tree *t, int32_t node, int group, int32_t page);
/* A page that is kept becomes free, and leaves its node. */
void tree_forget(prefix_tree *t, int group, int32_t page);
/* A page for one holder: a free one, else the oldest that is kept, of snapshots the one that is worth the least: it
 * leaves its node. -1: there is none. */
int32_t tree_take(prefix_tree *t, int group);
/* No page keeps its node; all must have been given back. */
void tree_clear(prefix_tree *t);
