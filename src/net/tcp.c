/* tcp.c - see tcp.h. */
#define _GNU_SOURCE
#include "net/tcp.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, UNSENT = 128 << 10 };

int address_parse(address *out, const char *text, bool any_port, err *e)
{
    const char *colon = strrchr(text, ':');
    bool v6 = *text == '[';
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (!colon || n == 0) return err_set(e, ERR_USAGE, "\"%.280s\": an address is HOST:PORT or [V6]:PORT", text);
    if (v6 && (n < 3 || text[n - 1] != ']'))
        return err_set(e, ERR_USAGE, "\"%.280s\": the ']' is missing before ':%s'", text, colon + 1);
    if (!v6 && memchr(text, ':', n))
        return err_set(e, ERR_USAGE, "\"%.280s\": an address of IPv6 stands in brackets: [V6]:PORT", text);
    char *end;
    long port = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || colon[1] < '0' || colon[1] > '9' || port > 65535 || port < (any_port ? 0 : 1))
        return err_set(e, ERR_USAGE, "\"%.280s\": a port is a number from %d to 65535, not \"%.20s\"", text,
                       any_port ? 0 : 1, colon + 1);
    const char *host = v6 ? text + 1 : text;
    size_t length = v6 ? n - 2 : n;
    if (length >= sizeof out->host) return err_set(e, ERR_USAGE, "\"%.280s\": the name is too long", text);
    memcpy(out->host, host, length);
    out->host[length] = 0;
    out->port = (int)port;
    return OK;
}

int address_list(address *out, int most, int *n, const char *text, const char *flag, err *e)
{
    *n = 0;
    for (const char *at = text; at;) {
        char one[TCP_NAME_MAX];
        const size_t length = strcspn(at, ",");
        if (*n == most) return err_set(e, ERR_USAGE, "%s: more than %d nodes", flag, most);
        snprintf(one, sizeof one, "%.*s", length < sizeof one ? (int)length : (int)sizeof one - 1, at);
        if (address_parse(&out[(*n)++], one, false, e)) return err_wrap(e, "%s", flag);
        at = at[length] ? at + length + 1 : NULL;
    }
    return OK;
}

void address_print(const address *a, char text[TCP_NAME_MAX])
{
    bool v6 = strchr(a->host, ':') != NULL;
    snprintf(text, TCP_NAME_MAX, "%s%s%s:%d", v6 ? "[" : "", a->host, v6 ? "]" : "", a->port);
}

/* Small writes leave at once; a writer waits rather than fill the kernel's queue, so that what is small and comes later
 * does not stand behind megabytes. */
static void tune(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){UNSENT}, sizeof(int));
}

static int look_up(struct addrinfo **out, const address *a, int flags, err *e)
{
    char port[12], name[TCP_NAME_MAX];
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    snprintf(port, sizeof port, "%d", a->port);
    int rc = getaddrinfo(a->host, port, &hint, out);
    if (rc == 0) return OK;
    address_print(a, name);
    const int code = rc == EAI_NONAME ? ERR_UNAVAILABLE : ERR_IO; /* no such name: waiting is of use only later */
    err_set(e, code, "%s", rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    err_of(e, name);
    return code;
}

bool address_is_loopback(const address *a)
{
    struct addrinfo *all;
    if (look_up(&all, a, 0, NULL)) return false;
    bool only = true;
    for (const struct addrinfo *i = all; i; i = i->ai_next) {
        const void *at = i->ai_addr;
        if (i->ai_family == AF_INET6)
            only = only && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)at)->sin6_addr);
        else only = only && ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 == 127;
    }
    freeaddrinfo(all);
    return only;
}

bool tcp_wait(int fd, bool write, double until)
{
    struct pollfd p = {fd, write ? POLLOUT : POLLIN, 0};
    for (;;) {
        double left = until - clock_now();
        int n = poll(&p, 1, left > 3600 ? 3600000 : left > 0 ? (int)(left * 1000) + 1 : 0);
        if (n > 0) return true;
        if (n == 0 ? left <= 0 : errno != EINTR) return false;
    }
}

/* Connections that are tried at once. */
enum { TRIES = 8 };
#define APART 0.25 /* seconds */

typedef struct tries {
    struct pollfd at[TRIES];
    int n, why; /* why: of the last one that failed, as errno has it */
} tries;

/* Begins one; a descriptor that is connected already, or -1. */
static int try_one(tries *t, const struct addrinfo *to)
{
    const int fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0) return fd;
    if (fd >= 0 && errno == EINPROGRESS) {
        t->at[t->n++] = (struct pollfd){fd, POLLOUT, 0};
        return -1;
    }
    t->why = errno;
    if (fd >= 0) close(fd);
    return -1;
}

/* Waits for one that is connected; -1: not within `seconds`. Those that have failed are gone then. */
static int await_one(tries *t, double seconds)
{
    int won = -1;
    if (poll(t->at, (nfds_t)t->n, seconds > 0 ? (int)(seconds * 1000) + 1 : 0) <= 0) return -1;
    for (int i = t->n - 1; i >= 0; i--) {
        int why = 0;
        const int fd = t->at[i].fd;
        if (!t->at[i].revents) continue;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &(socklen_t){sizeof why});
        if (!why && won < 0) {
            won = fd;
        } else {
            if (why) t->why = why;
            close(fd);
        }
        t->at[i] = t->at[--t->n];
    }
    return won;
}

int tcp_dial(const address *a, double seconds, err *e)
{
    struct addrinfo *all;
    char name[TCP_NAME_MAX];
    const double until = clock_now() + seconds;
    double due = 0;
    tries t = {.why = ETIMEDOUT};
    int rc = look_up(&all, a, 0, e), fd = -1;
    if (rc) return rc;
    for (const struct addrinfo *next = all; fd < 0;) {
        const double now = clock_now();
        if (next && t.n < TRIES && (now >= due || !t.n)) {
            fd = try_one(&t, next);
            next = next->ai_next;
            due = now + APART;
        } else if (!t.n || now >= until) {
            if (t.n) t.why = ETIMEDOUT;
            break;
        } else {
            const double wake = next && t.n < TRIES && due < until ? due : until;
            fd = await_one(&t, wake - now);
        }
    }
    for (int i = 0; i < t.n; i++) close(t.at[i].fd);
    freeaddrinfo(all);
    if (fd >= 0) {
        tune(fd);
        return fd;
    }
    address_print(a, name);
    err_set(e, ERR_IO, "%s", strerror(t.why));
    err_of(e, name);
    return ERR_IO;
}

static int port_of(int fd)
{
    struct sockaddr_storage at = {0};
    getsockname(fd, (struct sockaddr *)&at, &(socklen_t){sizeof at});
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

/* A descriptor, or -1. */
static int listen_at(const struct addrinfo *to)
{
    const int fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, to->ai_addr, to->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static void set_port(struct addrinfo *to, int port)
{
    if (to->ai_family == AF_INET6) ((struct sockaddr_in6 *)(void *)to->ai_addr)->sin6_port = htons((uint16_t)port);
    else ((struct sockaddr_in *)(void *)to->ai_addr)->sin_port = htons((uint16_t)port);
}

/* Names may have an address twice. */
static bool is_repeated(const struct addrinfo *all, const struct addrinfo *to)
{
    for (const struct addrinfo *i = all; i != to; i = i->ai_next)
        if (i->ai_addrlen == to->ai_addrlen && !memcmp(i->ai_addr, to->ai_addr, to->ai_addrlen)) return true;
    return false;
}

int tcp_listen(int fd[TCP_DOORS], address *a, err *e)
{
    struct addrinfo *all;
    char name[TCP_NAME_MAX];
    int n = 0, why = 0, rc = look_up(&all, a, AI_PASSIVE, e);
    if (rc) return rc;
    for (struct addrinfo *i = all; i && n < TCP_DOORS && (!n || why != EADDRINUSE); i = i->ai_next) {
        set_port(i, a->port);
        if (is_repeated(all, i)) continue;
        const int one = listen_at(i);
        if (one < 0) why = errno; /* a family that this machine does not have does no harm beside another one */
        else fd[n++] = one;
        if (n == 1) set_port(i, a->port = port_of(fd[0]));
    }
    freeaddrinfo(all);
    if (n && why != EADDRINUSE) return n;
    while (n > 0) close(fd[--n]);
    address_print(a, name);
    return err_set(e, ERR_IO, "cannot listen on %s: %s", name, strerror(why));
}

int tcp_accept(int listener, char from[TCP_NAME_MAX])
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    address a;
    char port[12];
    int fd = accept4(listener, (struct sockaddr *)&at, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return -1;
    tune(fd);
    if (getnameinfo((struct sockaddr *)&at, n, a.host, sizeof a.host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(a.host, sizeof a.host, "?"), snprintf(port, sizeof port, "0");
    a.port = atoi(port);
    address_print(&a, from);
    return fd;
}

bool tcp_has_bytes(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

void tcp_limit(int fd, double seconds)
{
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){(unsigned)(seconds * 1000)}, sizeof(unsigned));
}
