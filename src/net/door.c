/* door.c - see door.h. */
#define _GNU_SOURCE
#include "net/door.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    STRANGERS = 512, /* connections that have not shown the key */
    PROVEN_MAX = 256,
    HALVES = 128,
    EVENTS = 64,
    ACCEPTS = 64, /* in a row, before others are read */
    LINES = 16,   /* of refusals, in a second */
    BUCKETS = 256 /* of addresses */
};
static const double ENTER_SECONDS = 5;

/* How far a connection is. */
typedef enum { NEW, SHAKING, PROVEN, GREETING, HALF, STAGES } stage;

typedef struct incoming {
    struct incoming *before, *after; /* in the list of its stage, the oldest first */
    stage at;
    int fd;    /* NEW: the socket */
    tls *c;    /* SHAKING, PROVEN: its ClientHello shows that it has the key */
    frames *f; /* GREETING, HALF */
    hello *theirs;
    bool quick;                 /* tls_named */
    uint8_t token[HELLO_TOKEN]; /* HALF: that the other connection must show */
    double until;
    uint8_t bucket; /* of its address */
    char from[TCP_NAME_MAX];
} incoming;

struct door {
    int listener[TCP_DOORS], listeners, events, stop;
    peer_self self;
    door_use use;
    incoming list[STAGES]; /* heads of rings */
    int n[STAGES], strangers_max;
    uint16_t of_bucket[BUCKETS]; /* strangers */
    pthread_t thread;
    atomic_ullong refused;
    double second; /* when the lines of refusals began to be counted */
    unsigned lines, unsaid;
};

/* ---- who comes in */

static bool is_stranger(const incoming *g) { return g->at == NEW || g->at == SHAKING; }

static void incoming_unlink(door *d, incoming *g)
{
    g->before->after = g->after;
    g->after->before = g->before;
    d->n[g->at]--;
    d->of_bucket[g->bucket] -= is_stranger(g);
}

static void incoming_enlist(door *d, incoming *g, stage at)
{
    incoming *head = &d->list[at];
    g->at = at;
    g->before = head->before;
    g->after = head;
    head->before->after = g;
    head->before = g;
    d->n[at]++;
    d->of_bucket[g->bucket] += is_stranger(g);
}

static void incoming_move(door *d, incoming *g, stage at)
{
    incoming_unlink(d, g);
    incoming_enlist(d, g, at);
}

/* Its connection, unless that was given away, ends. */
static void incoming_free(door *d, incoming *g)
{
    incoming_unlink(d, g);
    if (g->f) frames_end(g->f), frames_close(g->f);
    else if (g->c) tls_close(g->c);
    else if (g->fd >= 0) close(g->fd);
    mem_free(g->theirs);
    mem_free(g);
}

static void say_unsaid(door *d)
{
    if (d->unsaid) log_line(LOG_WARN, "refused %u more connections in that second", d->unsaid);
    d->unsaid = 0;
}

static void refuse(door *d, incoming *g, const char *why)
{
    double now = clock_now();
    atomic_fetch_add(&d->refused, 1);
    if (now - d->second >= 1) {
        say_unsaid(d);
        d->second = now;
        d->lines = 0;
    }
    if (d->lines++ < LINES) log_line(LOG_WARN, "refused %s: %s", g->from, why);
    else d->unsaid++;
    incoming_free(d, g);
}

/* ---- coming in */

static int answer(door *d, incoming *g, hello_role role, hello_answer what, err *e)
{
    hello mine = d->self.me;
    mine.role = role;
    mine.answer = what;
    memcpy(mine.token, g->token, HELLO_TOKEN);
    return peer_greet(g->f, &mine, e);
}

static incoming *find_half(door *d, uint8_t role, const incoming *of)
{
    for (incoming *g = d->list[HALF].after; g != &d->list[HALF]; g = g->after)
        if (g->theirs->role == role && g->theirs->node == of->theirs->node &&
            memcmp(g->token, of->theirs->token, HELLO_TOKEN) == 0)
            return g;
    return NULL;
}

static frames *give_away(door *d, incoming *g)
{
    frames *f = g->f;
    epoll_ctl(d->events, EPOLL_CTL_DEL, tls_socket(frames_tls(f)), NULL);
    g->f = NULL;
    g->fd = -1;
    g->c = NULL;
    return f;
}

/* Both connections of a pair are there. */
static int join_halves(door *d, incoming *control, incoming *bulk, err *e)
{
    int rc = answer(d, bulk, HELLO_BULK, HELLO_WELCOME, e);
    if (rc) return rc;
    peer *p = peer_join(give_away(d, control), give_away(d, bulk), control->from, false, &d->self.me, control->theirs);
    incoming_free(d, control);
    incoming_free(d, bulk);
    if (p) d->use.enter(d->use.ctx, p);
    else log_line(LOG_ERROR, "out of memory for a connection");
    return OK;
}

/* It waits for the other connection of its pair. Where the handshake named the protocol (quick), the first
 * message of its process stays unread until then; else any message ends the connection. */
static int wait_for_other(door *d, incoming *g, err *e)
{
    struct epoll_event end = {EPOLLRDHUP, {.ptr = g}};
    g->until = clock_now() + ENTER_SECONDS;
    incoming_move(d, g, HALF);
    if (!g->quick || !epoll_ctl(d->events, EPOLL_CTL_MOD, tls_socket(frames_tls(g->f)), &end)) return OK;
    return err_set(e, ERR_IO, "%s", strerror(errno));
}

static int welcome_bulk(door *d, incoming *g, bool *joined, err *e)
{
    incoming *control = find_half(d, HELLO_CONTROL, g);
    memcpy(g->token, g->theirs->token, HELLO_TOKEN);
    *joined = control;
    if (control) return join_halves(d, control, g, e);
    if (g->quick && d->n[HALF] < HALVES) return wait_for_other(d, g, e);
    answer(d, g, HELLO_BULK, HELLO_UNKNOWN_TOKEN, e);
    return err_set(e, ERR_FORMAT, "a bulk connection without its control connection");
}

/* The hello of a connection is there. *joined: it made a pair with another, and both are freed. Frees it also
 * where nobody is to be told more. */
static int welcome(door *d, incoming *g, bool *joined, err *e)
{
    err why = {0};
    int rc = hello_check(&d->self.me, g->theirs, false, &why);
    if (!rc && g->theirs->role == HELLO_BULK) return welcome_bulk(d, g, joined, e);
    if (rc && g->theirs->role == HELLO_BULK && g->quick) { /* its control connection is told why */
        incoming_free(d, g);
        return OK;
    }
    bool full = !rc && (d->n[HALF] >= HALVES || !d->use.has_room(d->use.ctx));
    if (full) err_set(&why, ERR_BUSY, "there is no room for another leader");
    if (!rc && !full && g->quick) memcpy(g->token, g->theirs->token, HELLO_TOKEN);
    else if (!rc && !full) rc = hello_random(g->token, HELLO_TOKEN, &why);
    if (!rc) rc = answer(d, g, HELLO_CONTROL, full ? HELLO_FULL : HELLO_WELCOME, &why);
    else answer(d, g, HELLO_CONTROL, HELLO_WELCOME, NULL); /* so that the other side can say what is wrong */
    if (rc || full) return err_set(e, rc ? rc : ERR_BUSY, "%s", why.msg);
    incoming *bulk = g->quick ? find_half(d, HELLO_BULK, g) : NULL;
    *joined = bulk;
    return bulk ? join_halves(d, g, bulk, e) : wait_for_other(d, g, e);
}

static int open_tls(door *d, incoming *g, err *e)
{
    int fd = g->fd;
    g->fd = -1;
    incoming_move(d, g, SHAKING);
    return tls_open(&g->c, fd, true, d->self.key, hello_name(&d->self.me), e);
}

static int open_frames(door *d, incoming *g, err *e)
{
    tls *c = g->c;
    g->c = NULL;
    g->quick = tls_named(c);
    g->f = frames_open(c);
    g->theirs = mem_zero(1, sizeof *g->theirs);
    incoming_move(d, g, GREETING);
    return g->f && g->theirs ? OK : err_memory(e, NULL);
}

/* Its socket can be read: as far as that goes. Frees it when it is refused or let in; true: let in, and its
 * other connection is freed too. */
static bool attend(door *d, incoming *g)
{
    err e = {0};
    int rc = OK;
    if (g->at == HALF && g->theirs->role == HELLO_BULK) { /* its control connection was refused */
        incoming_free(d, g);
        return false;
    }
    if (g->at == HALF) rc = err_set(&e, ERR_FORMAT, "it ended or spoke before its bulk connection came");
    if (g->at == NEW) rc = open_tls(d, g, &e);
    if (!rc && (g->at == SHAKING || g->at == PROVEN)) {
        rc = tls_shake(g->c, &e);
        if (rc == TLS_WAIT_READ) {
            if (g->at == SHAKING && tls_knows(g->c)) incoming_move(d, g, PROVEN);
            return false;
        }
        if (rc == TLS_WAIT_WRITE) rc = err_set(&e, ERR_IO, "it takes no reply");
        if (!rc) rc = open_frames(d, g, &e);
    }
    if (!rc && g->at == GREETING) {
        frame_sink sink = peer_greeting(g->theirs);
        rc = frame_take(g->f, &sink, 0, &e);
        if (rc == FRAME_NONE) return false;
        if (rc == FRAME_END) { /* it has the key: the second of two connections, of which the first was refused */
            incoming_free(d, g);
            return false;
        }
        bool joined = false;
        if (!rc) rc = welcome(d, g, &joined, &e);
        if (!rc) return joined;
    }
    if (rc) refuse(d, g, e.msg);
    return false;
}

/* IPv4 addresses, and networks of IPv6, which belong to one household. */
static uint8_t bucket_of(const char *from)
{
    char host[TCP_NAME_MAX];
    uint8_t bytes[16] = {0};
    const char *colon = strrchr(from, ':');
    const bool v6 = *from == '[';
    snprintf(host, sizeof host, "%.*s", (int)(colon ? colon - from - 2 * v6 : 0), from + v6);
    if (inet_pton(v6 ? AF_INET6 : AF_INET, host, bytes) != 1) return 0;
    uint32_t sum = 2166136261u;
    for (int i = 0; i < (v6 ? 8 : 4); i++) sum = (sum ^ bytes[i]) * 16777619u;
    return (uint8_t)(sum >> 24 ^ sum >> 8);
}

static incoming *oldest_of(door *d, stage at, int bucket)
{
    incoming *g = d->list[at].after;
    while (g != &d->list[at] && g->bucket != bucket) g = g->after;
    return g == &d->list[at] ? NULL : g;
}

/* Too many that have not shown the key: of the address with most of them the oldest goes. Who has the key shows it in
 * its first message, which is read as soon as it is there. */
static void make_room(door *d)
{
    int most = 0;
    for (int i = 1; i < BUCKETS; i++)
        if (d->of_bucket[i] > d->of_bucket[most]) most = i;
    incoming *silent = oldest_of(d, NEW, most), *slow = oldest_of(d, SHAKING, most);
    incoming *g = !silent ? slow : !slow || silent->until <= slow->until ? silent : slow;
    if (!g && d->n[PROVEN]) g = d->list[PROVEN].after;
    if (g) refuse(d, g, "too many connections at once");
}

/* At most ACCEPTS, each of which is read at once; more make the next epoll_wait return. */
static void accept_some(door *d, int listener)
{
    char from[TCP_NAME_MAX];
    for (int n = 0; n < ACCEPTS; n++) {
        int fd = tcp_accept(listener, from);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && d->n[NEW] + d->n[SHAKING] + d->n[PROVEN]) {
            make_room(d);
            continue;
        }
        if (fd < 0) return;
        incoming *g = mem_zero(1, sizeof *g);
        if (!g) {
            close(fd);
            continue;
        }
        if (d->n[NEW] + d->n[SHAKING] >= d->strangers_max || d->n[PROVEN] >= PROVEN_MAX) make_room(d);
        *g = (incoming){.fd = fd, .until = clock_now() + ENTER_SECONDS, .bucket = bucket_of(from)};
        memcpy(g->from, from, sizeof from);
        incoming_enlist(d, g, NEW);
        if (epoll_ctl(d->events, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN | EPOLLRDHUP, {.ptr = g}}))
            refuse(d, g, strerror(errno));
        else if (tcp_has_bytes(fd)) attend(d, g);
    }
}

static void expire(door *d)
{
    double now = clock_now();
    for (int s = 0; s < STAGES; s++)
        for (incoming *g = d->list[s].after, *next; g != &d->list[s]; g = next) {
            next = g->after;
            if (g->until <= now) refuse(d, g, s == HALF ? "its other connection did not come" : "it was too slow");
        }
    if (now - d->second >= 1) say_unsaid(d);
}

static void *run_door(void *arg)
{
    door *d = arg;
    struct epoll_event ready[EVENTS];
    for (;;) {
        int n = epoll_wait(d->events, ready, EVENTS, 100);
        bool knocks = false;
        for (int i = 0; i < n; i++) {
            if (ready[i].data.ptr == &d->stop) return NULL;
            if (ready[i].data.ptr == d) knocks = true;
            else if (attend(d, ready[i].data.ptr)) break; /* the rest may name who is gone; what is left comes again */
        }
        for (int i = 0; knocks && i < d->listeners; i++) accept_some(d, d->listener[i]);
        expire(d);
    }
}

static void raise_descriptors(door *d)
{
    struct rlimit r;
    d->strangers_max = STRANGERS;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur / 4 < STRANGERS) d->strangers_max = (int)(r.rlim_cur / 4);
}

static void close_sockets(door *d)
{
    for (int i = 0; i < d->listeners; i++) close(d->listener[i]);
    if (d->events >= 0) close(d->events);
    if (d->stop >= 0) close(d->stop);
}

int door_open(door **out, address *at, const peer_self *self, const door_use *use, err *e)
{
    door *d = mem_zero(1, sizeof *d);
    *out = NULL;
    if (!d) return err_memory(e, NULL);
    const int n = tcp_listen(d->listener, at, e);
    if (n < 0) {
        mem_free(d);
        return n;
    }
    d->listeners = n;
    d->self = *self;
    d->use = *use;
    for (int s = 0; s < STAGES; s++) d->list[s].before = d->list[s].after = &d->list[s];
    raise_descriptors(d);
    d->events = epoll_create1(EPOLL_CLOEXEC);
    d->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event knock = {EPOLLIN, {.ptr = d}}, stop = {EPOLLIN, {.ptr = &d->stop}};
    bool good = d->events >= 0 && d->stop >= 0 && epoll_ctl(d->events, EPOLL_CTL_ADD, d->stop, &stop) == 0;
    for (int i = 0; i < n && good; i++) good = epoll_ctl(d->events, EPOLL_CTL_ADD, d->listener[i], &knock) == 0;
    if (good && pthread_create(&d->thread, NULL, run_door, d) == 0) {
        *out = d;
        return OK;
    }
    int rc = err_set(e, ERR_IO, "cannot listen: %s", strerror(errno));
    close_sockets(d);
    mem_free(d);
    return rc;
}

void door_close(door *d)
{
    if (!d) return;
    ssize_t n = write(d->stop, &(uint64_t){1}, 8);
    (void)n; /* a full counter stops too */
    pthread_join(d->thread, NULL);
    for (int s = 0; s < STAGES; s++)
        while (d->n[s]) incoming_free(d, d->list[s].after);
    say_unsaid(d);
    close_sockets(d);
    mem_free(d);
}

uint64_t door_refused(const door *d) { return atomic_load(&d->refused); }
