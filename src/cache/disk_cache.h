/* disk_cache.h - pages that outlive the engine: those on disk (page_store.h) are found as those in memory are.
 *
 * A text that goes from node to node (prefix_share.h) and does not find the next one in memory looks for it on disk.
 * What is there comes in stages of some megabytes, each before a step, so that others do not wait long. The other way,
 * each node that has got pages is noted, and its pages are handed to the store's thread when no step is under way: one
 * after each step, the others while there is nothing to do or when the cache is closed. Devices move pages between
 * steps only.
 *
 * Snapshots (text_slots.h) of a text are noted when it ends: the last two, those of its prompt and its answer if both
 * are there, and before them some at doubling distances. A text of a model with slots is loaded at once, up to its last
 * snapshot.
 *
 * Where none are kept these functions do nothing. */
#pragma once
#include "cache/cache_text.h"
#include "cache/page_store.h"
#include "plan/plan.h"

/* What holds between two steps. */
typedef struct disk_turn {
    plan *on;      /* the devices with the pages; NULL: they are away */
    bool idle;     /* no step is under way */
    uint64_t step; /* that is filled next */
} disk_turn;

typedef enum { DISK_NOTHING, DISK_LATER, DISK_SOME } disk_result;

/* For pages of this shape, of texts of `ctx` tokens at most; then _folder or _file, as page_store.h has them. */
int disk_cache_open(kv_cache *c, const page_shape *of, int64_t ctx, err *e);
int disk_cache_folder(kv_cache *c, const char *dir, int64_t most, void (*on_free)(void *ctx), void *ctx, err *e);
int disk_cache_file(kv_cache *c, const char *path, err *e);
/* Some pages that are not on disk yet are written. No step is under way. */
void disk_cache_close(kv_cache *c, plan *on);

/* The node has got its pages: they are to be written. */
void disk_cache_note(kv_cache *c, int32_t node);
/* Hands pages to the store, if it has room. */
void disk_cache_write(kv_cache *c, const disk_turn *now);
/* A text has ended with this node: its snapshots are to be written. Of a file: the node stays until another one ends,
 * for disk_cache_save. */
void disk_cache_remember(kv_cache *c, int32_t node);
/* Writes the pages of that text to a file of its own; nothing, where none has ended. No step is under way. */
int disk_cache_save(kv_cache *c, plan *on, const char *path, err *e);

/* Nodes whose pages were read from disk, and handed to the store. */
void disk_cache_count(const kv_cache *c, uint64_t *read, uint64_t *written);

/* Loads the next pages of a text, those before number `most`, that are on disk. DISK_LATER: the text has to wait, as
 * enough was loaded for this step, or steps are under way: then no more are sent while disk_cache_waits. DISK_SOME:
 * there are more pages than before, which nobody else takes before disk_cache_fetched. */
disk_result disk_cache_fetch(kv_cache *c, const cache_text *t, int64_t most, const disk_turn *now);
void disk_cache_fetched(kv_cache *c);
bool disk_cache_waits(kv_cache *c, const disk_turn *now);
