/* link_speed.h - how fast two processes talk: round trips of 8 KiB, and the rate of one connection. */
#pragma once
#include "net/peer.h"

typedef struct link_speed {
    double rtt_p50, rtt_p99; /* seconds: 8 KiB there and back */
    double bytes_per_s;      /* payload, one way */
} link_speed;

/* The link from one node to another, which the first measures (on_measure.h); from NULL: from here. Takes about half a
 * second. */
int link_measure(link_speed *out, const address *from, const address *to, const peer_self *self, err *e);
