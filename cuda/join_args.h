/* join_args.h - the parameters of the kernels of join.cu: what passes between the ranks of a group. Kernels and host
 * include it. */
#pragma once
#include "core/step.h"
#include "tensor/wire.h"

enum {
    JOIN_RANKS = 16,
    JOIN_BLOCKS = 48,
    JOIN_BLOCKS_LEAST = 8,
    JOIN_THREADS = 256,
    JOIN_PER_PROCESSOR = 4,
    JOIN_PATIENCE = 2 /* s */
};

/* Parts of a collective, as bits. LEAVE: the rank writes its input where the others read it. MAKE: it computes the
 * result from the inputs of all ranks; of a sum in two steps, that of its own chunk. TAKE: it copies the sums of the
 * other chunks. A kernel that does several parts meets the other ranks' kernels between them. */
enum { JOIN_LEAVE = 1, JOIN_MAKE = 2, JOIN_TAKE = 4 };

/* Memory of a rank that all ranks write. */
typedef struct join_meeting {
    uint32_t came[JOIN_RANKS][JOIN_BLOCKS]; /* how often block b of rank r has come */
    uint32_t turn[JOIN_BLOCKS];             /* how often own block b has */
    uint32_t odd;                           /* not 0: rows of a coded sum were not finite */
    uint32_t stopped;                       /* not 0: a rank has waited for another one in vain; nobody goes on */
} join_meeting;

/* Of one COLL on one rank. Groups of elements of a reduction are numbered row by row; rank r sums chunk r of them. */
typedef struct join_args {
    join_meeting *meeting[JOIN_RANKS];
    uint8_t *out[JOIN_RANKS], *sums[JOIN_RANKS]; /* what each rank leaves: rows, or codes of groups; codes of sums */
    int64_t begin[JOIN_RANKS], end[JOIN_RANKS];  /* the columns that it gives, or the rows of the table that it has */
    const step *st;
    const uint8_t *x;         /* what the rank gives; NULL: nothing */
    float *y;                 /* rows of the result, of int8 activations bytes; NULL: only others want it */
    int64_t cols, group;      /* elements under one scale */
    int64_t heads, sum_heads; /* where scales begin, behind the codes */
    int32_t ranks, rank, axis, block, offset, partial, sum, parts;
    bool two_steps;
} join_args;

/* Bytes of the codes of a group as it lies in out and sums. Four elements of it lie in one place. */
GPU_CODE static inline int64_t join_stride(int type, int64_t group)
{
    const int64_t fours = (group + 3) / 4, bits = type == WIRE_F32                          ? 32
                                                  : type == WIRE_F16                        ? 16
                                                  : type == WIRE_INT8 || type == WIRE_INT8S ? 8
                                                                                            : 4;
    return (fours * bits / 2 + 15) / 16 * 16;
}
