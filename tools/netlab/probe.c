/* probe.c - plain TCP between nodes: what sockets alone reach in a laboratory, so that others can be judged beside it.
 *
 * Usage: probe answer                        answers whoever asks, until it is killed
 *        probe ask HOST BYTES REPLY ROUNDS   in a round, sends BYTES and waits for REPLY bytes
 *        probe all BYTES ROUNDS RANK HOST…   one of these on each HOST: in a round each sends BYTES to each other one
 *                                            and waits for what is sent to it
 *
 * `ask` and `all` print {"ms_p50", "ms_min", "ms_max", "mbit_per_s"}: times of a round; what this end sent over all of
 * them. A first round warms up the connections and is not counted. A round of `all` is the least that an all-reduce in
 * one step takes; two rounds with a part of the bytes, the least in two steps. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS_MAX = 64, BUFFER = 1 << 18, PORT_ANSWER = 7000, PORT_ALL = 7001, TRIES = 500 };

typedef struct peer {
    int fd;
    uint64_t to_send, to_take; /* of this round */
} peer;

static uint8_t buffer[BUFFER];

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void exit_failed(const char *what)
{
    fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void send_at_once(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int socket_new(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0) exit_failed("socket");
    send_at_once(fd);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return fd;
}

static int listen_at(const char *host, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, host, &at.sin_addr);
    int fd = socket_new();
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, HOSTS_MAX)) exit_failed(host);
    return fd;
}

/* Tries for 10 s: who listens there may begin later. */
static int connect_to(const char *host, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1) exit_failed(host);
    for (int i = 0;; i++) {
        int fd = socket_new();
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) return fd;
        if (i == TRIES) exit_failed(host);
        close(fd);
        usleep(20000);
    }
}

/* Sends or takes n bytes; without `bytes`, any. False where the other end has closed. */
static bool move_all(int fd, uint8_t *bytes, uint64_t n, bool out)
{
    for (ssize_t got; n; n -= (uint64_t)got, bytes += bytes ? got : 0) {
        size_t some = n < BUFFER ? (size_t)n : BUFFER;
        got = out ? send(fd, bytes ? bytes : buffer, some, 0) : recv(fd, bytes ? bytes : buffer, some, 0);
        if (got <= 0) return false;
    }
    return true;
}

static int answer_asker(void)
{
    signal(SIGCHLD, SIG_IGN);
    for (int at = listen_at("0.0.0.0", PORT_ANSWER), fd;; close(fd)) {
        fd = accept(at, NULL, NULL);
        if (fd < 0) exit_failed("accept");
        if (fork()) continue;
        uint64_t sizes[2] = {0}; /* of a question, of its reply */
        send_at_once(fd);
        bool whole = move_all(fd, (uint8_t *)sizes, sizeof sizes, false);
        while (whole) whole = move_all(fd, NULL, sizes[0], false) && move_all(fd, NULL, sizes[1], true);
        _exit(0);
    }
}

/* One round of all; each end of a connection sends and takes the same number of bytes. */
static void round_all(peer *peers, int n, uint64_t bytes)
{
    struct pollfd wait[HOSTS_MAX];
    for (int i = 0; i < n; i++) peers[i].to_send = peers[i].to_take = bytes;
    for (;;) {
        bool left = false;
        for (int i = 0; i < n; i++) {
            peer *p = &peers[i];
            wait[i] = (struct pollfd){p->to_send || p->to_take ? p->fd : -1,
                                      (short)((p->to_send ? POLLOUT : 0) | (p->to_take ? POLLIN : 0)), 0};
            left = left || wait[i].fd >= 0;
        }
        if (!left) return;
        if (poll(wait, (nfds_t)n, -1) < 0) exit_failed("poll");
        for (int i = 0; i < n; i++) {
            for (int out = 0; out < 2; out++) {
                uint64_t *todo = out ? &peers[i].to_send : &peers[i].to_take;
                if (!*todo || !(wait[i].revents & (out ? POLLOUT : POLLIN | POLLHUP | POLLERR))) continue;
                size_t some = *todo < BUFFER ? (size_t)*todo : BUFFER;
                ssize_t got = out ? send(peers[i].fd, buffer, some, MSG_DONTWAIT)
                                  : recv(peers[i].fd, buffer, some, MSG_DONTWAIT);
                if (got > 0) *todo -= (uint64_t)got;
                else if (got == 0 || errno != EAGAIN) exit_failed("a peer is gone");
            }
        }
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int ask_host(const char *host, uint64_t bytes, uint64_t reply, double *seconds, int rounds)
{
    int fd = connect_to(host, PORT_ANSWER);
    uint64_t sizes[2] = {bytes, reply};
    bool whole = move_all(fd, (uint8_t *)sizes, sizeof sizes, true);
    for (int i = 0; i <= rounds && whole; i++) {
        double start = now_s();
        whole = move_all(fd, NULL, bytes, true) && move_all(fd, NULL, reply, false);
        seconds[i] = now_s() - start;
    }
    if (!whole) exit_failed(host);
    return 1;
}

/* Returns the number of peers. */
static int ask_all(char **hosts, int n_host, int rank, uint64_t bytes, double *seconds, int rounds)
{
    peer peers[HOSTS_MAX] = {0};
    int at = listen_at(hosts[rank], PORT_ALL), n = n_host - 1;
    for (int i = 0; i < n; i++) {
        peers[i].fd = i < rank ? connect_to(hosts[i], PORT_ALL) : accept(at, NULL, NULL);
        if (peers[i].fd < 0) exit_failed("accept");
        send_at_once(peers[i].fd);
    }
    for (int i = 0; i <= rounds; i++) {
        double start = now_s();
        round_all(peers, n, bytes);
        seconds[i] = now_s() - start;
    }
    return n;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    bool asks = argc == 6 && strcmp(argv[1], "ask") == 0, alls = argc > 6 && strcmp(argv[1], "all") == 0;
    if (argc == 2 && strcmp(argv[1], "answer") == 0) return answer_asker();
    int rounds = asks || alls ? atoi(argv[asks ? 5 : 3]) : 0, rank = alls ? atoi(argv[4]) : 0, n_host = argc - 5;
    if (rounds < 1 || (alls && (n_host > HOSTS_MAX || rank < 0 || rank >= n_host))) {
        fprintf(stderr, "usage: probe answer | ask HOST BYTES REPLY ROUNDS | all BYTES ROUNDS RANK HOST HOST...\n");
        return 2;
    }
    uint64_t bytes = strtoull(argv[asks ? 3 : 2], NULL, 10);
    double *seconds = calloc((size_t)rounds + 1, sizeof *seconds), sum = 0;
    if (!seconds) exit_failed("rounds");
    int n = asks ? ask_host(argv[2], bytes, strtoull(argv[4], NULL, 10), seconds, rounds)
                 : ask_all(argv + 5, n_host, rank, bytes, seconds, rounds);
    seconds++; /* the round that warmed up */
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_size);
    for (int i = 0; i < rounds; i++) sum += seconds[i];
    printf("{\"ms_p50\": %.3f, \"ms_min\": %.3f, \"ms_max\": %.3f, \"mbit_per_s\": %.2f}\n", seconds[rounds / 2] * 1e3,
           seconds[0] * 1e3, seconds[rounds - 1] * 1e3, 8e-6 * (double)bytes * n * rounds / sum);
    return 0;
}
