/* contents_disk.h - files of a checkpoint read once more, and compared with digests that were made before: whether a
 * disk changed what nobody wrote to. What of a disk one can see says base/file_disk.h. */
#pragma once
#include "io/contents.h"
#include "io/sums_disk.h"

/* Compares file number f of a checkpoint with the digests that are kept of it, or with those held (NULL: none).
 * ERR_UNAVAILABLE: a tensor has other contents, or cannot be read; digests that are kept of the file are believed no
 * more (contents_cache_doubt). ERR_CANCELLED: go_on said so. A file of which nothing is known, or that was replaced, is
 * OK. */
int contents_recheck(const ckpt *c, uint32_t f, const contents *held, const char *cache, int threads,
                     const sums_pace *pace, err *e);
/* All files with the digests that are kept, then what was not known yet, which is kept from then on. */
int contents_verify(const ckpt *c, const char *cache, int threads, err *e);
