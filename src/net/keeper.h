/* keeper.h - on a node: whether what it has of models is still what it was.
 *
 * A disk may change what nobody wrote to. So digests of its own copies that an earlier process made are only compared
 * with; and while nothing is asked of the node it reads them again from the disk, slowly, and compares. A copy that
 * changed is used no more until somebody replaces it. */
#pragma once
#include "io/ckpt.h"

typedef struct keeper keeper;

typedef struct keeper_use {
    void *ctx;
    bool (*works)(void *ctx);   /* something is asked of the node */
    void (*decayed)(void *ctx); /* keeper_check says of one more file that it changed; by the keeper's thread */
} keeper_use;

/* paths: [n_path] of copies; strings must outlive it. verify: all of them are compared now; ERR_UNAVAILABLE names a
 * file that changed. */
int keeper_open(keeper **out, const char *const *paths, int n_path, bool verify, err *e);
int keeper_begin(keeper *k, const keeper_use *use, err *e); /* starts its thread */
int64_t keeper_since(const keeper *k);                      /* contents_clock: from when on digests are believed */
/* ERR_UNAVAILABLE: a file of this checkpoint has changed on the disk. From any thread. */
int keeper_check(keeper *k, const ckpt *c, err *e);
void keeper_close(keeper *k); /* NULL ok */
