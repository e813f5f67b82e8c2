/* store.h - what a node has of a leader's checkpoint: a file as large as all tensors, of which only the bytes that were
 * fetched take room, and a journal of them with their digests.
 *
 * In a folder it outlives the process, under the digest of the whole: what is there is checked by its digests before it
 * is used again, and what was damaged is missing. Without a folder it lies in memory. Several leases may have one
 * open. */
#pragma once
#include "net/piece_ask.h"

typedef struct store store;

/* told must outlive it. dir: made when it is not there; NULL: in memory. */
int store_open(store **out, const catalogue *told, const char *dir, err *e);
/* A checkpoint of the leader's tensors; its bytes change as they come. The caller's. */
int store_ckpt(store *s, const char *name, ckpt **out, err *e);
/* Takes from a merged list what is there, while that checkpoint is open. */
int store_missing(store *s, const ckpt *c, byte_runs *runs, err *e);
int store_put(store *s, const piece_ask *a, const uint8_t digest[SHA256_BYTES], const uint8_t *bytes, err *e);
void store_close(store *s); /* NULL ok */
