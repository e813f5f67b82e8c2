/* loan.h - the memory that a node lends, of which its leases take their parts: weights that are not used in mapped
 * files, pages, buffers. */
#pragma once
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct loans {
    pthread_mutex_t lock;
    uint64_t most;  /* bytes, of all leases together; 0: what the machine has */
    uint64_t taken; /* so far */
} loans;

/* A lease that has *held bytes needs so many in all. ERR_MEMORY, "lends 8.0 GiB, its part needs 9.2"; ERR_BUSY where
 * others have what it lacks: *held is as before. */
int loan_take(loans *of, uint64_t *held, uint64_t needs, err *e);
uint64_t loan_left(loans *of); /* UINT64_MAX: without bound */
uint64_t loan_taken(loans *of);
void loan_return(loans *of, uint64_t *held);
/* That error: `lends` bytes for a part that needs more. */
int loan_refuse(const loans *of, uint64_t lends, uint64_t needs, err *e);
