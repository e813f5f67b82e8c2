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

#include <stdbool.h>
#include <stdint.h>

typedef struct hub_cache {
    arena mem; /* of the paths */
    const char *dir, *repo, *blobs, *locks;
} hub_cache;

/* The places of a repository ("ORG/NAME"), whether there or not. ERR_NOT_FOUND: no variable says where the cache is.
 * hub_cache_close also after an error. */
int hub_cache_open(hub_cache *c, const char *repo, err *e);
void hub_cache_close(hub_cache *c);

/* What loads: the folder of a snapshot, or a file in it. ERR_NOT_FOUND: it is not there, or not whole. mem_free
 * *path. */
int hub_cache_find(const hub_cache *c, const hub_name *name, char **path, err *e);

/* Makes a folder and those above it. */
int hub_cache_folder(const char *path, err *e);
/* Whether the snapshot has the file as this blob of so many bytes. */
bool hub_cache_has(hub_cache *c, const char *commit, const char *file, const char *etag, uint64_t bytes);
/* Links a file of a snapshot to its blob, in place of what was there. */
int hub_cache_link(hub_cache *c, const char *commit, const char *file, const char *etag, err *e);
/* Notes the commit of a branch or tag. */
int hub_cache_note(hub_cache *c, const char *revision, const char *commit, err *e);

/* The token of the user: $HF_TOKEN, or the file $HF_TOKEN_PATH, or `token` beside the cache. "" : none. */
void hub_cache_token(char *token, uint64_t cap);
