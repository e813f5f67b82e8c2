/* hub_cache.h - the folder in which programs of this machine share what they have of the hub: Python's huggingface_hub,
 * llama.cpp, this one.
 *
 *     models--ORG--NAME/refs/main                 the commit of a branch or tag, without a newline
 *     models--ORG--NAME/snapshots/COMMIT/FILE     a relative link to its blob
 *     models--ORG--NAME/blobs/ETAG                bytes, named by what the hub calls them: often their SHA-256
 *     .locks/models--ORG--NAME/ETAG.lock          held with flock by who writes the blob
 *
 * It is $HF_HUB_CACHE, or hub/ in $HF_HOME, in $XDG_CACHE_HOME/huggingface or in ~/.cache/huggingface. Whatever else
 * lies there stays. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "hub/hub_name.h"

typedef struct hub_cache {
    arena mem; /* of the paths */
    const char *dir, *repo;
} hub_cache;

/* The places of a repository ("ORG/NAME"), whether there or not. ERR_NOT_FOUND: no variable says where the cache is.
 * hub_cache_close also after an error. */
int hub_cache_open(hub_cache *c, const char *repo, err *e);
void hub_cache_close(hub_cache *c);

/* What loads: the folder of a snapshot, or a file in it. ERR_NOT_FOUND: it is not there, or not whole. mem_free
 * *path. */
int hub_cache_find(const hub_cache *c, const hub_name *name, char **path, err *e);
