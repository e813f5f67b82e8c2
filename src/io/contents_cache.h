/* contents_cache.h - digests of parts of a file, kept on disk under what the file is: device, inode, size, times.
 *
 * One small file for each; it is believed when its own digest is right and it is about the same, unchanged file. */
#pragma once
#include "base/file.h"
#include "base/sha256.h"

typedef struct file_sum {
    uint64_t offset, bytes;
    uint8_t digest[SHA256_BYTES];
} file_sum;

typedef struct file_sums {
    file_sum *at; /* n of them; read: in the order of their places */
    size_t n;
} file_sums;

/* What is kept of the file; none when it is not there, damaged or of a file that was changed. ERR_MEMORY. */
int contents_cache_read(file_sums *out, const char *dir, const file_id *id, err *e);
const file_sum *file_sums_find(const file_sums *s, const file_sum *place); /* NULL: none */
int contents_cache_write(const file_sums *s, const char *dir, const file_id *id, err *e);
void file_sums_free(file_sums *s);

/* $XDG_CACHE_HOME/inferflow or ~/.cache/inferflow; mem_free it. NULL: neither is set, or out of memory. */
char *contents_cache_folder(void);
