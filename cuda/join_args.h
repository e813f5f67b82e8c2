/* join_args.h - the parameters of the kernels of join.cu: what passes between the ranks of a group. Kernels and host
 * include it. */
#pragma once
#include "core/step.h"
#include "tensor/wire.h"

enum { JOIN_RANKS = 16, JOIN_THREADS = 128 };

/* Of one COLL on one rank. Groups of elements of a reduction are numbered row by row; rank r sums chunk r of them. */
typedef struct join_args {
    const uint8_t *from[JOIN_RANKS];            /* of each rank: its rows, as they lie; its codes of all rows */
    int64_t begin[JOIN_RANKS], end[JOIN_RANKS]; /* the columns that it gives, or the rows of the table that it has */
    const step *st;
    float *y;      /* rows of the result; of codes, bytes */
    uint8_t *to;   /* codes of all rows, by the kernel that encodes y */
    uint32_t *odd; /* becomes 1 where rows are not finite; NULL: nobody asks */
    int64_t cols, group;
    int32_t ranks, rank, axis, block, offset, type;
    bool chunked; /* only the rank's chunk */
} join_args;
