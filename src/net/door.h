/* door.h - where other processes come in: accepts connections, and lets in who has the key and fits.
 *
 * One thread handles everybody until both connections of a process have said hello, and waits for nobody: connections
 * that have sent nothing cost a descriptor each, those in the handshake are few, all must be done in time. When there
 * are too many the longest silent one goes. So floods and slow senders delay others by little, and take bounded memory.
 *
 * Who is refused is logged, one line each; where many are in a second, the rest in one line. */
#pragma once
#include "net/peer.h"

typedef struct door door;

typedef struct door_use {
    void *ctx;
    /* Whether another process may come in; one has come: it belongs to the callee, who starts or closes it. Both are
     * called by the door's thread. */
    bool (*has_room)(void *ctx);
    void (*enter)(void *ctx, peer *p);
} door_use;

/* Listens at `at`, whose port becomes the one that was picked. `self` and `use` are copied. */
int door_open(door **out, address *at, const peer_self *self, const door_use *use, err *e);
void door_close(door *d);             /* NULL ok */
uint64_t door_refused(const door *d); /* connections refused so far */
