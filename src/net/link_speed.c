/* link_speed.c - see link_speed.h. */
#include "net/link_speed.h"

#include "base/clock.h"
#include "net/msg.h"
#include "net/on_measure.h"

#include <stdlib.h>

enum { PING_BYTES = 8192, PINGS_MIN = 5, PINGS_MAX = 2000, WARM = 5 };
static const double LINK_SECONDS = 0.5;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure_trips(link_speed *out, peer *p, double seconds, err *e)
{
    static const int per_cent[] = {50, 99};
    double took[PINGS_MAX], until = clock_now() + seconds;
    int n = 0, rc = OK;
    for (int i = 0; i < WARM && !rc; i++) rc = peer_ping(p, PEER_CONTROL, PING_BYTES, &took[0], e);
    while (!rc && n < PINGS_MAX && (n < PINGS_MIN || clock_now() < until))
        rc = peer_ping(p, PEER_CONTROL, PING_BYTES, &took[n++], e);
    if (rc) return rc;
    qsort(took, (size_t)n, sizeof *took, by_value);
    double *to[] = {&out->rtt_p50, &out->rtt_p99};
    for (int i = 0; i < 2; i++) *to[i] = took[(n - 1) * per_cent[i] / 100];
    return OK;
}

/* A PING behind the bytes says when all have come. The first part opens the window of TCP and is not counted. */
static int measure_rate(link_speed *out, peer *p, double seconds, err *e)
{
    static const uint8_t zeros[FRAME_SMALL];
    frame_head h = {FRAME_SMALL, MSG_PROBE, 0};
    double trip, start = clock_now(), until = start + seconds / 3;
    int rc = OK;
    for (int part = 0; part < 2 && !rc; part++) {
        uint64_t sent = 0;
        start = clock_now();
        for (; !rc && (clock_now() < until || sent == 0); sent += FRAME_SMALL)
            rc = peer_send(p, PEER_BULK, &h, zeros, e);
        if (!rc) rc = peer_ping(p, PEER_BULK, 0, &trip, e);
        until = clock_now() + seconds * 2 / 3;
        out->bytes_per_s = (double)sent / (clock_now() - start);
    }
    return rc;
}

static int measure(link_speed *out, peer *p, double seconds, err *e)
{
    int rc = measure_trips(out, p, seconds / 2, e);
    return rc ? rc : measure_rate(out, p, seconds / 2, e);
}

int link_measure(link_speed *out, const address *from, const address *to, const peer_self *self, err *e)
{
    peer *p;
    if (from) return measure_ask(out, from, to, self, e);
    int rc = peer_dial(&p, to, self, &(peer_use){.ctx = NULL}, e);
    if (rc) return rc;
    rc = measure(out, p, LINK_SECONDS, e);
    peer_close(p);
    return rc;
}
