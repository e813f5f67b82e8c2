/* supply.h - on the leader: pieces of its checkpoint for one node that has no copy. */
#pragma once
#include "net/peer.h"
#include "net/piece_ask.h"

typedef struct supply supply;

/* No thread is started before the first GET. The checkpoint must outlive it. */
int supply_open(supply **out, const ckpt *c, err *e);
/* A GET, from a reading thread; the answer goes by the bulk connection. ERR_FORMAT: it cannot be answered, or too many
 * are waiting. */
int supply_take(supply *s, peer *to, const frame_head *h, const uint8_t *payload, err *e);
uint64_t supply_bytes(void);  /* that this process has sent to nodes */
void supply_stop(supply *s);  /* before peer_close: sends nothing more; NULL ok */
void supply_close(supply *s); /* after it; NULL ok */
