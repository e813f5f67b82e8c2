/* net_rig.h - two ends of a connection under TLS in one process, and what tests of src/net need besides. */
#pragma once
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "net/door.h"
#include "net/msg.h"

#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

static const uint8_t rig_key[KEY_BYTES] = {1, 2, 3};

/* Two connected TCP sockets on loopback. */
static inline void rig_sockets(int fd[2])
{
    address at = {"127.0.0.1", 0};
    char from[TCP_NAME_MAX];
    err e = {0};
    int listeners[TCP_DOORS];
    assert_int_equal(tcp_listen(listeners, &at, &e), 1);
    const int listener = listeners[0];
    fd[0] = tcp_dial(&at, 5, &e);
    assert_true(fd[0] >= 0);
    assert_true(tcp_wait(listener, false, clock_now() + 5));
    fd[1] = tcp_accept(listener, from);
    assert_true(fd[1] >= 0);
    close(listener);
}

/* Handshakes of both ends in turn; the codes with which they ended. */
static inline void rig_shake(tls *c[2], int rc[2], err e[2])
{
    double until = clock_now() + 10;
    rc[0] = rc[1] = 1;
    while ((rc[0] > 0 || rc[1] > 0) && clock_now() < until)
        for (int i = 0; i < 2; i++)
            if (rc[i] > 0) {
                rc[i] = tls_shake(c[i], &e[i]);
                if (rc[i] < 0) tls_cut(c[i]);
            }
}

/* c[0] dialled, c[1] was dialled. */
static inline void rig_pair(tls *c[2])
{
    int fd[2], rc[2];
    err e[2] = {{0}, {0}};
    rig_sockets(fd);
    for (int i = 0; i < 2; i++) assert_ok(tls_open(&c[i], fd[i], i == 1, rig_key, NULL, &e[i]), &e[i]);
    rig_shake(c, rc, e);
    for (int i = 0; i < 2; i++) assert_ok(rc[i], &e[i]);
}

/* A sink that counts frames and checks their bytes: byte i of a frame is rig_byte(channel, i). */
typedef struct rig_sink {
    uint32_t most; /* bytes of a frame that are admitted */
    int frames, large;
    uint64_t bytes;
    uint64_t channel[4096]; /* of the frames, in order */
    uint8_t *room;
} rig_sink;

static inline uint8_t rig_byte(uint64_t channel, uint64_t i) { return (uint8_t)(channel * 31 + i * 7 + (i >> 8)); }

static inline void rig_fill(uint8_t *p, uint64_t channel, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) p[i] = rig_byte(channel, i);
}

static inline int rig_admit(void *ctx, const frame_head *h, uint8_t **room, err *e)
{
    rig_sink *s = ctx;
    if (h->bytes > s->most) return err_set(e, ERR_LIMIT, "%u bytes are more than %u", h->bytes, s->most);
    if (h->bytes > FRAME_SMALL) *room = s->room = mem_alloc(h->bytes);
    return OK;
}

static inline int rig_take(void *ctx, const frame_head *h, const uint8_t *payload, err *e)
{
    rig_sink *s = ctx;
    for (uint64_t i = 0; i < h->bytes; i++)
        if (payload[i] != rig_byte(h->channel, i))
            return err_set(e, ERR_FORMAT, "byte %llu is wrong", (unsigned long long)i);
    s->channel[s->frames++ % 4096] = h->channel;
    s->large += h->bytes > FRAME_SMALL;
    s->bytes += h->bytes;
    if (payload == s->room) {
        mem_free(s->room);
        s->room = NULL;
    }
    return OK;
}

static inline frame_sink rig_sink_of(rig_sink *s) { return (frame_sink){s, rig_admit, rig_take}; }
