/* file_disk.c - see file_disk.h. */
#define _GNU_SOURCE
#include "base/file_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { ALIGN = DISK_ROOM - DISK_READ };

int file_disk_open(file_disk *d, const char *path)
{
    d->plain = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    d->direct = d->plain < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
    return d->plain < 0 ? -1 : 0;
}

const uint8_t *file_disk_read(const file_disk *d, uint64_t at, size_t n, uint8_t *room)
{
    const uint64_t from = at / ALIGN * ALIGN;
    const size_t all = (size_t)(at - from) + n, whole = (all + ALIGN - 1) / ALIGN * ALIGN;
    ssize_t got = d->direct >= 0 ? pread(d->direct, room, whole, (off_t)from) : -1;
    if (got >= (ssize_t)all) return room + (at - from);
    posix_fadvise(d->plain, (off_t)from, (off_t)whole, POSIX_FADV_DONTNEED);
    for (size_t done = 0; done < all; done += (size_t)got) {
        do got = pread(d->plain, room + done, all - done, (off_t)(from + done));
        while (got < 0 && errno == EINTR);
        if (got <= 0) return NULL;
    }
    posix_fadvise(d->plain, (off_t)from, (off_t)whole, POSIX_FADV_DONTNEED);
    return room + (at - from);
}

void file_disk_close(file_disk *d)
{
    if (d->direct >= 0) close(d->direct);
    if (d->plain >= 0) close(d->plain);
}
