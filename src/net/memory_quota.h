/* memory_quota.h - the memory that a node lends, of which its leases take their parts: weights that are not used in
 * mapped files, pages, buffers. */
#pragma once
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct memory_quota {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    uint64_t most;  /* bytes, of all leases together; 0: what the machine has */
    uint64_t taken; /* so far */
    int ending;     /* leases that will soon return theirs */
} memory_quota;

void quota_open(memory_quota *of, uint64_t most);
void quota_close(memory_quota *of);

/* A lease that has *held bytes needs so many in all. ERR_MEMORY, "lends 8.0 GiB, its part needs 9.2"; ERR_BUSY where
 * others have what it lacks, and do not end: *held is as before. besides: bytes that are counted for its part, for the
 * message. */
int quota_take(memory_quota *of, uint64_t *held, uint64_t needs, uint64_t besides, err *e);
uint64_t quota_left(memory_quota *of); /* UINT64_MAX: without bound */
uint64_t quota_taken(memory_quota *of);
void quota_return(memory_quota *of, uint64_t *held);
/* A lease ends; it has returned what it had. */
void quota_expect(memory_quota *of);
void quota_expect_less(memory_quota *of);
/* That error: `lends` bytes for a part that needs more. */
int quota_refuse(const memory_quota *of, uint64_t lends, uint64_t needs, err *e);
