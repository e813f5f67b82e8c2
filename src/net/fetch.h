/* fetch.h - on a node: bytes of tensors, and the list of them, from the leader of a lease, asked for over its control
 * connection.
 *
 * Two pieces are asked for at a time, so a process that is killed has at most these to fetch again. */
#pragma once
#include "net/peer.h"
#include "net/store.h"

typedef struct fetch fetch;

int fetch_open(fetch **out, peer *leader, err *e);
/* The list of tensors with this digest, of so many bytes. */
int fetch_list(fetch *f, const uint8_t digest[SHA256_BYTES], uint32_t bytes, buf *to, err *e);
/* Fetches what store_missing left over into the store; returns when all is there. */
int fetch_run(fetch *f, store *s, const catalogue *told, const byte_runs *missing, err *e);
void fetch_end(fetch *f, const err *why); /* nothing more comes; from any thread */
void fetch_close(fetch *f);               /* NULL ok */
