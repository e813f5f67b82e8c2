/* contents.h - what the tensors of a checkpoint hold, as SHA-256.
 *
 * Which model it is says program.hash, without reading a weight; this says whether two copies of it are equal. Tensors
 * are hashed one by one, so that another division into files, or parts of a model on another machine, can be compared.
 * What was hashed once is remembered by file (contents_cache.h). A disk can change what nobody wrote to; so contents
 * can be hashed again (contents_disk.h), and whoever asks says how old a digest may be. */
#pragma once
#include "base/sha256.h"
#include "io/ckpt.h"

typedef struct contents {
    uint8_t (*tensor)[SHA256_BYTES]; /* [ckpt_count] of their bytes, as ckpt_entry.data */
    uint8_t all[SHA256_BYTES];       /* of name, type, shape and digest of all tensors in the order of their names;
                                        zeros where only some tensors were wanted */
    uint64_t hashed;                 /* bytes; those of the other tensors were remembered */
    int64_t hashed_at;               /* contents_clock, when the oldest of the digests was made */
} contents;

/* cache: the folder of what was hashed before, made when it is not there; NULL: none. Its faults are no errors.
 * ERR_MEMORY, ERR_IO when a file shrinks meanwhile. */
int contents_hash(contents *out, const ckpt *c, const char *cache, int threads, err *e);
/* The same of the tensors i with want[i]; [ckpt_count]; NULL: all. Digests that are older than `since` (contents_clock)
 * are made again; ERR_UNAVAILABLE: one has changed, in a file that nobody wrote to. */
int contents_hash_some(contents *out, const ckpt *c, const bool *want, const char *cache, int64_t since, int threads,
                       err *e);
void contents_free(contents *o);
/* Says that of the tensor at this place of a file. */
int contents_decayed(const ckpt *c, uint32_t file, uint64_t offset, err *e);

/* Roots of the trees (base/hash_tree.h) over each MiB of tensors: what shows that a part of one belongs to it. */
typedef struct contents_roots {
    uint8_t (*root)[SHA256_BYTES];
    uint64_t *first;   /* [ckpt_count] of a tensor; contents_trees of its bytes follow each other */
    int64_t hashed_at; /* contents_clock, when the oldest of them was made */
} contents_roots;
uint64_t contents_trees(uint64_t bytes);
/* As contents_hash_some; zeros of tensors that are not wanted. */
int contents_roots_some(contents_roots *out, const ckpt *c, const bool *want, const char *cache, int64_t since,
                        int threads, err *e);
void contents_roots_free(contents_roots *o);

/* contents.all of tensors of which only this is known; sorts them by name. */
typedef struct contents_item {
    const ckpt_entry *t; /* its data is not looked at */
    const uint8_t *digest;
} contents_item;
void contents_join(contents_item *items, size_t n, uint8_t all[SHA256_BYTES]);
