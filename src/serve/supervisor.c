/* supervisor.c - see supervisor.h. */
#define _GNU_SOURCE
#include "serve/supervisor.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void supervisor_tell(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof a.sun_path || (*path != '/' && *path != '@')) return;
    memcpy(a.sun_path, path, n);
    if (*path == '@') a.sun_path[0] = 0; /* a name outside of the file system */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&a, size) < 0) { /* nobody listens */
    }
    close(fd);
}

int supervisor_interval(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long long usec = text ? atoll(text) : 0;
    if (usec < 2000 || (pid && atoll(pid) != getpid())) return -1;
    return usec / 2000 < 60000 ? (int)(usec / 2000) : 60000;
}
