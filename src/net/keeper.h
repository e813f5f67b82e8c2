/* keeper.h - on a node: whether what it has of models is still what it was.
 *
 * A disk may change what nobody wrote to. So digests of its own copies that an earlier process made are only compared
 * with; and while nothing is asked of the node it reads copies and cache again from the disk, slowly, and compares. A
 * copy that changed is used no more until somebody replaces it; what changed in the cache is fetched anew. */
#pragma once
#include "base/file.h"
#include "io/ckpt.h"

typedef struct keeper keeper;

typedef struct keeper_use {
    void *ctx;
    bool (*works)(void *ctx);                                      /* something is asked of the node */
    void (*decayed)(void *ctx, const file_id *id, const err *why); /* what reads this file must end; by its thread */
    void (*looked)(void *ctx);                                     /* all was looked at once */
} keeper_use;

/* paths: [n_path] of copies; cache: the folder, NULL: none; strings must outlive it. verify: all is compared now;
 * ERR_UNAVAILABLE names a copy that changed. */
int keeper_open(keeper **out, const char *const *paths, int n_path, const char *cache, bool verify, err *e);
int keeper_begin(keeper *k, const keeper_use *use, err *e); /* starts its thread */
int64_t keeper_since(const keeper *k);                      /* contents_clock: from when on digests are believed */
/* ERR_UNAVAILABLE: a file of this checkpoint has changed on the disk. From any thread. */
int keeper_check(keeper *k, const ckpt *c, err *e);
uint64_t keeper_changed(const keeper *k); /* files of copies that have changed so far */
void keeper_close(keeper *k);             /* NULL ok */
