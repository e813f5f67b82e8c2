/* link_speed.h - how fast two processes talk: round trips of 8 KiB, and the rate of one connection. */
#pragma once
#include "net/peer.h"

typedef struct link_speed {
    double rtt_p50, rtt_p99; /* seconds: 8 KiB there and back */
    double bytes_per_s;      /* payload, one way */
} link_speed;

/* Connects, and measures for about half a second. */
int link_measure_to(link_speed *out, const address *to, const peer_self *self, err *e);
/* Lets node `a` measure to node `b` (on_measure.h). */
int link_measure_between(link_speed *out, const address *a, const address *b, const peer_self *self, err *e);
