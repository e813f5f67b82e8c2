/* frame_relay.h - somebody in the middle who has the key: passes frames on between a process and a node, and withholds
 * those of one kind, as if whoever should have said them had not. */
#pragma once
#include "base/clock.h"
#include "net/msg.h"
#include "net/peer.h"

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { RELAY_UP = 1, RELAY_DOWN = 2, RELAY_BOTH = 3 }; /* to the node; from it */
enum { RELAY_PAIRS = 64 };

typedef struct relay relay;

typedef struct relay_pair {
    relay *of;
    tls *end[2]; /* of who dialled; of the node */
    int fd;      /* who has dialled, before that */
    pthread_t thread, back;
} relay_pair;

struct relay {
    peer_self self;
    address to, at;
    int listener;
    char name[TCP_NAME_MAX];
    pthread_t thread;
    atomic_bool over, cut;
    relay_pair pair[RELAY_PAIRS];
    int n;
    _Atomic int kind, ways; /* of the frames that are withheld; 0: none is */
    atomic_int skip;        /* so many pass before */
    atomic_int withheld;    /* so far */
    _Atomic double first;   /* clock_now of the first */
};

/* Whether a record is withheld. All of a large frame have its head. */
static inline bool relay_takes(relay *r, span record, int way)
{
    cursor c = cursor_of(record);
    cursor_u32(&c);
    const int kind = cursor_u16(&c), further = cursor_u16(&c);
    if (kind != atomic_load(&r->kind) || !(atomic_load(&r->ways) & way)) return false;
    if (!further && atomic_fetch_sub(&r->skip, 1) > 0) return false;
    if (!atomic_fetch_add(&r->withheld, 1)) atomic_store(&r->first, clock_now());
    return true;
}

static inline void relay_end(relay_pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->end[i]) tls_cut(p->end[i]);
}

/* Until one side ends. */
static inline void relay_pass(relay_pair *p, int from)
{
    tls *a = p->end[from], *b = p->end[!from];
    span record;
    for (int rc;;) {
        while ((rc = tls_recv(a, &record, NULL)) > 0) tcp_wait(tls_socket(a), false, clock_now() + 1);
        if (rc || !record.n) break;
        if (relay_takes(p->of, record, from ? RELAY_DOWN : RELAY_UP)) continue;
        while ((rc = tls_send(b, record.p, record.n, NULL)) > 0) tcp_wait(tls_socket(b), true, clock_now() + 1);
        if (rc) break;
    }
    tls_bye(b);
    shutdown(tls_socket(b), SHUT_WR);
}

static inline void *relay_back(void *arg)
{
    relay_pass(arg, 1);
    return NULL;
}

static inline bool relay_shake(tls *c)
{
    const double until = clock_now() + 5;
    int rc;
    while ((rc = tls_shake(c, NULL)) > 0)
        if (!tcp_wait(tls_socket(c), rc == TLS_WAIT_WRITE, until)) return false;
    return rc == OK;
}

static inline void *relay_main(void *arg)
{
    relay_pair *p = arg;
    relay *r = p->of;
    const char *name = hello_name(&r->self.me);
    const int fd = tcp_dial(&r->to, 5, NULL);
    if (fd < 0) {
        close(p->fd);
        return NULL;
    }
    const bool open = tls_open(&p->end[0], p->fd, true, r->self.key, name, NULL) == OK;
    if (tls_open(&p->end[1], fd, false, r->self.key, name, NULL) || !open) return NULL;
    if (relay_shake(p->end[1]) && relay_shake(p->end[0]) && !pthread_create(&p->back, NULL, relay_back, p)) {
        relay_pass(p, 0);
        pthread_join(p->back, NULL);
    }
    relay_end(p);
    return NULL;
}

static inline void *relay_accept(void *arg)
{
    relay *r = arg;
    char from[TCP_NAME_MAX];
    while (!atomic_load(&r->over)) {
        if (!tcp_wait(r->listener, false, clock_now() + 0.05)) continue;
        const int fd = tcp_accept(r->listener, from);
        if (fd < 0) continue;
        if (r->n == RELAY_PAIRS || atomic_load(&r->cut)) {
            close(fd);
            continue;
        }
        relay_pair *p = &r->pair[r->n];
        *p = (relay_pair){.of = r, .fd = fd};
        if (pthread_create(&p->thread, NULL, relay_main, p)) close(fd);
        else r->n++;
    }
    return NULL;
}

static inline void relay_open(relay *r, const char *key_file, const char *node)
{
    int fd[TCP_DOORS];
    err e = {0};
    *r = (relay){.at = {"127.0.0.1", 0}};
    assert_ok(peer_self_open(&r->self, key_file, &e), &e);
    assert_ok(address_parse(&r->to, node, false, &e), &e);
    assert_int_equal(tcp_listen(fd, &r->at, &e), 1);
    r->listener = fd[0];
    address_print(&r->at, r->name);
    assert_int_equal(pthread_create(&r->thread, NULL, relay_accept, r), 0);
}

/* From now on, but for the first few. */
static inline void relay_withhold(relay *r, int kind, int ways, int skip)
{
    atomic_store(&r->skip, skip);
    atomic_store(&r->ways, ways);
    atomic_store(&r->kind, kind);
}

/* All connections end, and nobody comes in any more: the node is gone. */
static inline void relay_cut(relay *r)
{
    atomic_store(&r->cut, true);
    for (int i = 0; i < r->n; i++) relay_end(&r->pair[i]);
}

/* All connections end: the node has begun anew. */
static inline void relay_drop(relay *r)
{
    relay_cut(r);
    atomic_store(&r->cut, false);
}

static inline void relay_close(relay *r)
{
    atomic_store(&r->over, true);
    pthread_join(r->thread, NULL);
    relay_cut(r);
    for (int i = 0; i < r->n; i++) pthread_join(r->pair[i].thread, NULL);
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < 2; k++) tls_close(r->pair[i].end[k]);
    close(r->listener);
}
