/* watch.c - see watch.h. */
#define _GNU_SOURCE
#include "serve/watch.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum { PEER_NONE, PEER_HEAD, PEER_BODY, PEER_REPLY, PEER_IDLE, PEER_LINGER } peer_state;

typedef struct peer {
    peer_state state;
    uint32_t generation; /* of the descriptor's number: late events of an older connection do not match */
    double deadline;
    double hung_up;    /* clock_now of the end of what the client sends; 0: it may send more */
    uint64_t received; /* PEER_IDLE: bytes the kernel had counted when the reply was sent */
    stream *pending;   /* with a reference */
} peer;

struct watch {
    pthread_mutex_t lock;
    peer *peers; /* by descriptor */
    size_t cap;
    int top; /* highest descriptor in use, plus one */
    int epoll, wake;
    double head_seconds;
    bool ending, worked; /* worked: a request has ended since memory was given back */
    int calm;            /* ticks without a request at work */
    pthread_t thread;
};

enum { TICK_MS = 500, EVENTS = 64, CALM_TICKS = 3 };
static const double HUNG_SECONDS = 0.8; /* what a client sent before it hung up is read in this time */

static uint64_t bytes_received(int fd)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    memset(&info, 0, sizeof info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 ? info.tcpi_bytes_received : 0;
}

static peer *peer_at(watch *w, int fd)
{
    void *p = w->peers;
    if (fd < 0) return NULL;
    if ((size_t)fd >= w->cap) {
        size_t old = w->cap;
        if (!mem_grow(&p, &w->cap, (size_t)fd + 1, sizeof *w->peers)) return NULL;
        w->peers = p;
        memset(w->peers + old, 0, (w->cap - old) * sizeof *w->peers);
    }
    if (fd >= w->top) w->top = fd + 1;
    return &w->peers[fd];
}

/* Takes the stream out of a peer; the caller drops it without the lock. */
static stream *take_pending(peer *p)
{
    stream *s = p->pending;
    p->pending = NULL;
    return s;
}

void watch_add(watch *w, int fd)
{
    pthread_mutex_lock(&w->lock);
    peer *p = peer_at(w, fd);
    if (p) {
        *p = (peer){.state = PEER_HEAD, .generation = p->generation + 1, .deadline = clock_now() + w->head_seconds};
        struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET | EPOLLONESHOT,
                                 .data.u64 = (uint64_t)p->generation << 32 | (uint32_t)fd};
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev);
    }
    pthread_mutex_unlock(&w->lock);
}

static void set_state(watch *w, int fd, peer_state state, double seconds, stream *pending)
{
    pthread_mutex_lock(&w->lock);
    peer *p = peer_at(w, fd);
    stream *old = NULL;
    bool gone = false;
    if (p && p->state != PEER_NONE) {
        old = take_pending(p);
        p->state = state;
        p->deadline = clock_now() + seconds;
        if (state == PEER_IDLE) p->received = bytes_received(fd);
        if (state == PEER_NONE) epoll_ctl(w->epoll, EPOLL_CTL_DEL, fd, NULL);
        if (pending) {
            stream_keep(pending);
            p->pending = pending;
            gone = p->hung_up > 0;
        }
        w->worked |= state == PEER_IDLE || state == PEER_NONE;
    }
    pthread_mutex_unlock(&w->lock);
    if (gone) stream_leave(pending);
    stream_drop(old);
}

void watch_body(watch *w, int fd) { set_state(w, fd, PEER_BODY, WATCH_BODY_SECONDS, NULL); }
void watch_reply(watch *w, int fd, stream *pending) { set_state(w, fd, PEER_REPLY, 0, pending); }
void watch_idle(watch *w, int fd) { set_state(w, fd, PEER_IDLE, WATCH_IDLE_SECONDS, NULL); }

void watch_remove(watch *w, int fd, bool linger)
{
    set_state(w, fd, PEER_NONE, 0, NULL);
    int copy = linger ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return;
    shutdown(fd, SHUT_WR);
    pthread_mutex_lock(&w->lock);
    peer *p = peer_at(w, copy);
    if (p)
        *p = (peer){
            .state = PEER_LINGER, .generation = p->generation + 1, .deadline = clock_now() + WATCH_LINGER_SECONDS};
    pthread_mutex_unlock(&w->lock);
    if (!p) close(copy);
}

/* Calls fn for every pending stream, without the lock. */
static void for_each_pending(watch *w, void (*fn)(stream *s, double now), double now)
{
    for (int fd = 0;; fd++) {
        pthread_mutex_lock(&w->lock);
        while (fd < w->top && !w->peers[fd].pending) fd++;
        stream *s = fd < w->top ? w->peers[fd].pending : NULL;
        if (s) stream_keep(s);
        pthread_mutex_unlock(&w->lock);
        if (!s) return;
        fn(s, now);
        stream_drop(s);
    }
}

static void leave(stream *s, double now)
{
    (void)now;
    stream_leave(s);
}

static void ping(stream *s, double now) { stream_ping(s, now, WATCH_PING_SECONDS); }

void watch_leave_all(watch *w) { for_each_pending(w, leave, 0); }

/* The client of an event closed its side: its stream is told. The library overlooks an end that comes with data. */
static void on_hangup(watch *w, uint64_t data)
{
    int fd = (int)(uint32_t)data;
    stream *s = NULL;
    pthread_mutex_lock(&w->lock);
    if (fd < w->top && w->peers[fd].generation == data >> 32) {
        w->peers[fd].hung_up = clock_now();
        s = w->peers[fd].pending;
    }
    if (s) stream_keep(s);
    pthread_mutex_unlock(&w->lock);
    if (s) stream_leave(s);
    stream_drop(s);
}

/* Reads what a refused client still sends; false: over. */
static bool drain_pipe(int fd)
{
    static char sink[65536];
    for (int i = 0; i < 64; i++) {
        ssize_t n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (n < 0) return true;
    }
    return true;
}

static void check_peer(watch *w, int fd, double now)
{
    peer *p = &w->peers[fd];
    const bool hung = p->hung_up > 0 && now > p->hung_up + HUNG_SECONDS;
    switch (p->state) {
    case PEER_IDLE:
        if (bytes_received(fd) != p->received) { /* the next head has begun */
            p->state = PEER_HEAD;
            p->deadline = now + w->head_seconds;
            break;
        }
        /* fall through */
    case PEER_HEAD:
    case PEER_BODY:
        if (hung || now > p->deadline) shutdown(fd, SHUT_RDWR);
        break;
    case PEER_LINGER:
        if (drain_pipe(fd) && now < p->deadline) break;
        p->state = PEER_NONE;
        close(fd);
        break;
    case PEER_REPLY:
        if (hung && p->pending) shutdown(fd, SHUT_RDWR);
        break;
    case PEER_NONE: break;
    }
}

/* Gives memory back once nothing has been at work for a while. */
static bool is_calm(watch *w, bool busy)
{
    w->calm = busy ? 0 : w->calm + 1;
    bool due = w->worked && w->calm >= CALM_TICKS;
    if (due) w->worked = false;
    return due;
}

static void *run_watch(void *arg)
{
    watch *w = arg;
    double next = 0;
    for (;;) {
        struct epoll_event ev[EVENTS];
        int n = epoll_wait(w->epoll, ev, EVENTS, TICK_MS);
        for (int i = 0; i < n; i++)
            if (ev[i].data.u64 != UINT64_MAX) on_hangup(w, ev[i].data.u64);
        double now = clock_now();
        pthread_mutex_lock(&w->lock);
        bool ending = w->ending, due = now >= next, busy = false;
        for (int fd = 0; due && fd < w->top; fd++) {
            check_peer(w, fd, now);
            busy |= w->peers[fd].state == PEER_BODY || w->peers[fd].state == PEER_REPLY;
        }
        bool calm = due && is_calm(w, busy);
        pthread_mutex_unlock(&w->lock);
        if (ending) return NULL;
        if (!due) continue;
        if (calm) mem_trim();
        for_each_pending(w, ping, now);
        next = now + TICK_MS * 1e-3;
    }
}

int watch_open(watch **out, double head_seconds, err *e)
{
    watch *w = *out = mem_zero(1, sizeof *w);
    if (!w) return err_memory(e, NULL);
    pthread_mutex_init(&w->lock, NULL);
    w->head_seconds = head_seconds;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    if (w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &ev) ||
        pthread_create(&w->thread, NULL, run_watch, w)) {
        if (w->epoll >= 0) close(w->epoll);
        if (w->wake >= 0) close(w->wake);
        mem_free(w);
        *out = NULL;
        return err_set(e, ERR_IO, "cannot start the watch thread: %s", strerror(errno));
    }
    return OK;
}

void watch_close(watch *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_mutex_unlock(&w->lock);
    if (write(w->wake, &(uint64_t){1}, 8) == 8) pthread_join(w->thread, NULL);
    for (int fd = 0; fd < w->top; fd++) {
        stream_drop(w->peers[fd].pending);
        if (w->peers[fd].state == PEER_LINGER) close(fd);
    }
    close(w->epoll);
    close(w->wake);
    pthread_mutex_destroy(&w->lock);
    mem_free(w->peers);
    mem_free(w);
}
