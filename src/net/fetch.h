/* fetch.h - on a node: bytes of tensors from the leader of a lease, asked for over its control connection.
 *
 * Two pieces are asked for at a time, so a process that is killed has at most these to fetch again. */
#pragma once
#include "net/peer.h"
#include "net/store.h"

typedef struct fetch fetch;

int fetch_open(fetch **out, peer *leader, err *e);
/* Fetches what store_missing left over into the store; returns when all is there. */
int fetch_run(fetch *f, store *s, const byte_runs *missing, err *e);
/* PIECE, as peer_use. */
int fetch_admit(fetch *f, const frame_head *h, uint8_t **room, err *e);
int fetch_take(fetch *f, const frame_head *h, const uint8_t *payload, err *e);
void fetch_end(fetch *f, const err *why); /* nothing more comes; from any thread */
void fetch_close(fetch *f);               /* NULL ok */
