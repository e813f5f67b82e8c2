/* store.h - what a node has of a leader's checkpoint: a file as large as all tensors, of which only the bytes that were
 * fetched take room, and a journal of them with their digests.
 *
 * In a folder it outlives the process, under the identity of the catalogue: whoever opens that file has the same
 * tensors in the same places, whatever file its leader has. Only what was proved to be of that identity comes in; what
 * is there is checked by its digests before it is used again, and what was damaged is missing. A file never becomes
 * smaller. Several leases may have one open. Files that nobody has open go, the least used first, where all together
 * would be larger than asked.
 *
 * Without a folder it lies in memory. A leader of protocol 2 proves nothing: its file in the folder has no name, and is
 * gone with the lease. */
#pragma once
#include "base/file.h"
#include "net/piece_ask.h"

typedef struct store store;

/* told must outlive it. dir: made when it is not there; NULL: in memory. most: bytes of the files of the folder; 0:
 * half of its disk. */
int store_open(store **out, const catalogue *told, const char *dir, uint64_t most, err *e);
/* A checkpoint of the leader's tensors; its bytes change as they come. The caller's. */
int store_ckpt(store *s, const char *name, ckpt **out, err *e);
/* Takes from a merged list what is there, while that checkpoint is open. */
int store_missing(store *s, const ckpt *c, byte_runs *runs, err *e);
/* bytes: of the runs one after another, which were proved. */
int store_put(store *s, const piece_ask *a, const uint8_t *bytes, err *e);
/* Gives up files of others that nobody has open until so many more bytes fit. ERR_LIMIT: they cannot. */
int store_make_room(store *s, uint64_t bytes, err *e);
uint64_t store_folder_bytes(const char *dir); /* that the files of a folder take of its disk */
/* Where the leader proves nothing: ERR_FORMAT names a whole tensor of a merged list that does not hold what the
 * catalogue says. */
int store_check(const store *s, const ckpt *c, const byte_runs *runs, err *e);
/* ERR_UNAVAILABLE: what is there changed on its disk, as somebody found who shares the folder. From any thread. */
int store_look(const store *s, err *e);
void store_close(store *s); /* NULL ok */
