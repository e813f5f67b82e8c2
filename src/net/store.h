/* store.h - what a node has of a leader's checkpoint: a file as large as all tensors, of which only the bytes that were
 * fetched take room, and a journal of them with their digests.
 *
 * In a folder it outlives the process, under the digest of the whole, which the catalogue proves to be that of its
 * list: whoever opens that file has the same tensors in the same places, whatever file its leader has. What is there is
 * checked by its digests before it is used again, and what was damaged is missing; whole tensors are compared with the
 * catalogue too, whoever brought them. A file never becomes smaller. Without a folder it lies in memory. Several leases
 * may have one open. Files that nobody has open go, the least used first, where all together would be larger than
 * asked. */
#pragma once
#include "net/piece_ask.h"

typedef struct store store;

/* told must outlive it. dir: made when it is not there; NULL: in memory. most: bytes of the files of the folder; 0:
 * half of its disk. */
int store_open(store **out, const catalogue *told, const char *dir, uint64_t most, err *e);
/* A checkpoint of the leader's tensors; its bytes change as they come. The caller's. */
int store_ckpt(store *s, const char *name, ckpt **out, err *e);
/* Takes from a merged list what is there, while that checkpoint is open. */
int store_missing(store *s, const ckpt *c, byte_runs *runs, err *e);
int store_put(store *s, const piece_ask *a, const uint8_t digest[SHA256_BYTES], const uint8_t *bytes, err *e);
/* Gives up files of others that nobody has open until so many more bytes fit. ERR_LIMIT: they cannot. */
int store_make_room(store *s, uint64_t bytes, err *e);
/* Whole tensors of a merged list that do not hold what the catalogue says go to `bad`, as runs of all their bytes. */
int store_check(const store *s, const ckpt *c, const byte_runs *runs, byte_runs *bad, err *e);
void store_close(store *s); /* NULL ok */
