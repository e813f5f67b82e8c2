/* contents_cache.h - digests of parts of a file, kept on disk under what the file is: device, inode, size, times; and
 * when each was made, because a disk can change bytes of a file that nobody wrote to.
 *
 * One small file for each; it is believed when its own digest is right and it is about the same, unchanged file. */
#pragma once
#include "base/file.h"
#include "base/sha256.h"

typedef enum {
    SUM_FLAT,
    SUM_TREE
} sum_kind; /* SHA-256 of the bytes; the root of a tree over them (base/hash_tree.h) */

typedef struct file_sum {
    uint64_t offset, bytes;
    sum_kind kind;
    int64_t hashed; /* contents_clock, when it was made; 0: it is in doubt */
    uint8_t digest[SHA256_BYTES];
} file_sum;

typedef struct file_sums {
    file_sum *at; /* n of them; read: in the order of their places */
    size_t n, cap;
} file_sums;

/* What is kept of the file; none when it is not there, damaged or of a file that was changed. ERR_MEMORY. */
int contents_cache_read(file_sums *out, const char *dir, const file_id *id, err *e);
const file_sum *file_sums_find(const file_sums *s, const file_sum *place); /* NULL: none */
/* Of two of one place the younger is kept. False: out of memory. */
bool file_sums_add(file_sums *s, const file_sum *x);
int contents_cache_write(file_sums *s, const char *dir, const file_id *id, err *e); /* sorts them */
/* From now on they are only compared with: the file changed, though nobody wrote to it. */
void contents_cache_doubt(const char *dir, const file_id *id);
void file_sums_free(file_sums *s);
int64_t contents_clock(void); /* nanoseconds since 1970 */

/* $XDG_CACHE_HOME/inferflow or ~/.cache/inferflow; mem_free it. NULL: neither is set, or out of memory. */
char *contents_cache_folder(void);
