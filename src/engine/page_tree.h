/* page_tree.h - names of full pages, so that texts which begin alike share them.
 *
 * A name is 64 ids after another name: names form a tree, whose roots stand for all else that keys and values depend on
 * (rope tables) and for whom they are kept. Two pages of one name have the same bits, because results do not depend on
 * batch or chunk. A name is found by a hash over its parent and its ids, which are then compared.
 *
 * A name has a page in each group, or none where a window has left it, or where it was needed for something else. Where
 * the model has states of fixed size, every fourth name may have a slot with those after its last id: a snapshot. It is
 * held, kept and given up as pages are; slots are one more group of the tree, after the others.
 *
 * A name lives while it has a page, or a user: a name after it, or a session that is there or is about to fill it. */
#pragma once
#include "base/sha256.h"
#include "engine/pages.h"

struct session;

enum { SNAPSHOT_PAGES = 4, SNAPSHOT_TOKENS = SNAPSHOT_PAGES * PAGE_TOKENS };

typedef struct page_name {
    int32_t parent;               /* -1: a root */
    int32_t next;                 /* in its bucket, or of the free ones; -1: none */
    int32_t users;                /* names after it, and sessions */
    int32_t page[GROUP_MAX + 1];  /* -1: none */
    const struct session *filler; /* whose next steps fill its pages; NULL: nobody's */
    int32_t ids[PAGE_TOKENS];     /* of a root: what tells it from others */
    uint8_t digest[SHA256_BYTES]; /* of all ids from the root on: tree_digest */
} page_name;

typedef struct page_tree {
    page_name *name;
    int32_t *bucket;                /* [cap] */
    int32_t n, cap, free;           /* names that were ever used; the first that is free again, -1: none */
    page_pool *pool[GROUP_MAX + 1]; /* [n_group], of the engine */
    int n_group;                    /* with that of slots */
    int slots;                      /* which that is; -1: there are none */
} page_tree;

/* For pages of these [n_group] pools, and for slots, unless this pool is empty; they are open and outlive the tree. */
int tree_open(page_tree *t, page_pool *pool, int n_group, page_pool *slots, err *e);
void tree_close(page_tree *t);

/* The digest of the name of 64 ids after the one with digest `parent`; NULL: of a root. */
void tree_digest(const uint8_t *parent, const int32_t ids[PAGE_TOKENS], uint8_t digest[SHA256_BYTES]);

/* The name of 64 ids after `parent` (-1: a root); -1: there is none. */
int32_t tree_find(const page_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS]);
/* That name, made where there is none, with one more user; -1: no name is left. */
int32_t tree_use(page_tree *t, int32_t parent, const int32_t ids[PAGE_TOKENS]);
void tree_hold(page_tree *t, int32_t name); /* one more user */
void tree_drop(page_tree *t, int32_t name); /* one less: it, and those before it, may be gone */

uint32_t tree_groups(const page_tree *t, int32_t name); /* those in which it has a page, a bit each */
/* Names a page that somebody holds, unless it, or this name in its group, has another already. */
void tree_put(page_tree *t, int32_t name, int group, int32_t page);
/* A page for one holder: a free one, else the oldest that is kept, which loses its name; -1: there is none. */
int32_t tree_take(page_tree *t, int group);
/* No page keeps its name; all must have been given back. */
void tree_clear(page_tree *t);
