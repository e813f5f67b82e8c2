/* meet.h - how ranks on nodes reach each other.
 *
 * The lower of two ranks dials as soon as its lease says that it has to. Where nothing has come from it after a second,
 * the higher one dials too: one of the two may be behind a wall that only it can look over. One that the leader knows
 * by a loopback name dials all that have others, and is not dialled by them. Who has not been reached is tried again
 * until the ranks end, for its lease may come later. */
#pragma once
#include "net/rank_links.h"

typedef struct meeting meeting;

typedef struct meet_ask {
    rank_links *w; /* which outlives the meeting, as the next three do */
    const rank_links_others *others;
    const uint8_t (*token)[LEASE_TOKEN]; /* [ranks] */
    const peer_self *self;
    const char *by; /* who asked for the ranks, for the log */
} meet_ask;

/* Begins to connect the rank with all others on nodes that it hands something; does not wait. */
int meet_begin(meeting **out, const meet_ask *a, err *e);
/* Waits until all are there. ERR_IO: who is not. */
int meet_await(const meeting *m, double seconds, err *e);
/* After rank_links_fail: waits for those who dial. NULL ok. */
void meet_close(meeting *m);
