/* link_speed.h - how fast two processes talk: round trips of 8 KiB, and the rate of one connection. */
#pragma once
#include "net/peer.h"

typedef struct link_speed {
    double rtt_p50, rtt_p99; /* seconds: 8 KiB there and back */
    double bytes_per_s;      /* payload, one way */
} link_speed;

/* Measures for about `seconds`, half of it each. */
int link_measure(link_speed *out, peer *p, double seconds, err *e);
