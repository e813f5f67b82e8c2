/* file_disk.h - bytes of a file as its disk has them.
 *
 * The disk itself is asked where the file system lets one (O_DIRECT); else what the system keeps of the file in memory
 * leaves it first, but for pages that some process has mapped and touched: of these one sees the memory. Nor does one
 * see what a drive keeps in a memory of its own. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { DISK_READ = 1 << 20, DISK_ROOM = DISK_READ + 4096 };

typedef struct file_disk {
    int direct, plain; /* descriptors; direct -1: the file system has none */
} file_disk;

int file_disk_open(file_disk *d, const char *path); /* 0, or -1 and errno */
/* At most DISK_READ bytes, into a room of DISK_ROOM of mem_map: where in it they begin; NULL: they cannot be read. */
const uint8_t *file_disk_read(const file_disk *d, uint64_t at, size_t n, uint8_t *room);
void file_disk_close(file_disk *d);
