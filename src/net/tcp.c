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
    return err_set(e, code, "%s: %s", name, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
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

/* 0, or what errno says. */
static int connect_to(int fd, const struct addrinfo *to, double until)
{
    int why = 0;
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    if (!tcp_wait(fd, true, until)) return ETIMEDOUT;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &(socklen_t){sizeof why});
    return why;
}

int tcp_dial(const address *a, double seconds, err *e)
{
    struct addrinfo *all;
    char name[TCP_NAME_MAX];
    double until = clock_now() + seconds;
    int why = ENOENT, rc = look_up(&all, a, 0, e);
    if (rc) return rc;
    for (const struct addrinfo *i = all; i; i = i->ai_next) {
        int fd = socket(i->ai_family, i->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, i->ai_protocol);
        why = fd < 0 ? errno : connect_to(fd, i, until);
        if (!why) {
            tune(fd);
            freeaddrinfo(all);
            return fd;
        }
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(all);
    address_print(a, name);
    return err_set(e, ERR_IO, "%s: %s", name, strerror(why));
}

static int port_of(int fd)
{
    struct sockaddr_storage at = {0};
    getsockname(fd, (struct sockaddr *)&at, &(socklen_t){sizeof at});
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

int tcp_listen(address *a, err *e)
{
    struct addrinfo *all;
    char name[TCP_NAME_MAX];
    int rc = look_up(&all, a, AI_PASSIVE, e);
    if (rc) return rc;
    int fd = socket(all->ai_family, all->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, all->ai_protocol);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, all->ai_addr, all->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        address_print(a, name);
        rc = err_set(e, ERR_IO, "cannot listen on %s: %s", name, strerror(errno));
        if (fd >= 0) close(fd);
    } else {
        a->port = port_of(fd);
    }
    freeaddrinfo(all);
    return rc ? rc : fd;
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
