/* trial_msg.h - what a leader and a node say while they measure collectives between ranks (comm/coll_measure.h).
 *
 *     leader                                 node
 *     TRIAL  devices, rank, tokens     ->    makes places for messages between ranks
 *                                      <-    ANSWER; from now on ranks may JOIN (net/lease_msg.h)
 *     TEST   one collective            ->    dials the ranks after its own, once, and takes part
 *                                      <-    ANSWER with a score
 *
 * The trial ends with the control connection. */
#pragma once
#include "comm/coll_measure.h"
#include "net/lease_msg.h"

typedef struct trial_ask {
    int32_t rank, ranks;
    uint64_t bytes;                             /* of a message between ranks, at most */
    span devices;                               /* the notation of --devices; in the reader the payload's memory */
    uint8_t token[LINK_RANKS_MAX][LEASE_TOKEN]; /* [ranks] as of a lease */
} trial_ask;

/* Readers: ERR_FORMAT when malformed or out of range. Writers: false when memory is short. */
bool trial_ask_write(buf *out, const trial_ask *a);
int trial_ask_read(trial_ask *a, span payload, err *e);
bool trial_test_write(buf *out, const coll_test *t); /* but for `wire` and `sent` */
int trial_test_read(coll_test *t, span payload, err *e);
bool trial_score_write(buf *out, const coll_score *x);
int trial_score_read(coll_score *x, span payload, err *e);
