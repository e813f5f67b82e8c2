/* hub_blob.h - one file of the cache while it is downloaded, in parts that come in any order.
 *
 * Its bytes go to blobs/ETAG.inferflow.incomplete, where they will lie. What of each part has come is noted behind
 * them, after each write: a download that is killed goes on from there. It takes the name ETAG when it is whole and, if
 * the ETag is a SHA-256, has that digest. Meanwhile .locks/…/ETAG.lock keeps other programs from it. */
#pragma once
#include "hub/hub_cache.h"

typedef struct hub_blob {
    const char *etag;
    char *path, *temporary;
    int fd, lock;
    uint64_t bytes, part_bytes, *done; /* of each of n_part parts: bytes that have come, from its start */
    uint32_t n_part;
} hub_blob;

/* *there: it is in the cache already, and nothing is open. ERR_BUSY: another program downloads it. */
int hub_blob_open(hub_blob *b, const hub_cache *c, const char *etag, uint64_t bytes, bool *there, err *e);
/* Where a part ends. */
uint64_t hub_blob_end(const hub_blob *b, uint32_t part);
/* Adds to a part; one thread a part. */
int hub_blob_add(hub_blob *b, uint32_t part, const void *p, size_t n, err *e);
/* Gives it its name, when all parts have come. ERR_FORMAT: its digest is another one; then it is removed. */
int hub_blob_finish(hub_blob *b, err *e);
/* What is not finished stays, for the next time. */
void hub_blob_close(hub_blob *b);
