/* supply.h - on the leader: pieces of its checkpoint, and the list of it, for one node that has no copy. */
#pragma once
#include "net/own_list.h"
#include "net/peer.h"
#include "net/piece_ask.h"

typedef struct supply supply;

/* No thread is started before the first message. Checkpoint and list must outlive it. */
int supply_open(supply **out, const ckpt *c, const own_list *list, err *e);
/* A GET or GET_LIST, from a reading thread; the answer goes by the bulk connection. ERR_FORMAT: it cannot be answered,
 * or too many are waiting. */
int supply_take(supply *s, peer *to, const frame_head *h, const uint8_t *payload, err *e);
uint64_t supply_bytes(void);  /* of weights that this process has sent to nodes */
void supply_stop(supply *s);  /* before peer_close: sends nothing more; NULL ok */
void supply_close(supply *s); /* after it; NULL ok */
