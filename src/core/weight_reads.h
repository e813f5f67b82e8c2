/* weight_reads.h - which bytes of a checkpoint a weight is made of: what somebody who has no copy must fetch.
 *
 * As exact as weight_fill.h reads: the rows of a window, its columns where they are taken from the file as they are,
 * whole panels. */
#pragma once
#include "core/program.h"

typedef struct byte_run {
    uint32_t entry; /* of the checkpoint */
    uint64_t at, n; /* bytes of the tensor */
} byte_run;

typedef struct byte_runs {
    byte_run *run; /* [n] {0} is a valid empty list */
    size_t n, cap;
} byte_runs;

bool byte_runs_add(byte_runs *to, uint32_t entry, uint64_t at, uint64_t n); /* false: out of memory */
void byte_runs_merge(byte_runs *r);                                         /* sorted, apart from each other */
uint64_t byte_runs_bytes(const byte_runs *r);
/* Appends what of a is not in b, both merged. */
bool byte_runs_minus(byte_runs *to, const byte_runs *a, const byte_runs *b);
/* Whether a run has bytes of a merged list. */
bool byte_runs_meet(const byte_runs *r, const byte_run *with);
void byte_runs_free(byte_runs *r);

/* Appends the bytes that weight_fill reads for w. ERR_MEMORY. */
int weight_reads(const weight *w, byte_runs *to, err *e);
