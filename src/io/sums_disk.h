/* sums_disk.h - digests that are kept of a file (io/contents_cache.h), compared with what its disk has
 * (base/file_disk.h). */
#pragma once
#include "io/contents_cache.h"

/* Asked after every MiB at most: may wait. False: stop. */
typedef struct sums_pace {
    bool (*go_on)(void *ctx, uint64_t bytes);
    void *ctx;
} sums_pace;

/* Says in them when, where all are right. pace NULL: as fast as it goes. ERR_UNAVAILABLE: the place of number *wrong
 * has other contents, or cannot be read; ERR_NOT_FOUND: it is not that file any more; ERR_CANCELLED: go_on said so. */
int sums_recheck(file_sums *s, const char *path, const file_id *id, int threads, const sums_pace *pace, size_t *wrong,
                 err *e);
