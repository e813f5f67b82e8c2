/* coll_measure.h - measures a collective: its time over a link, the bytes that it sends, and the error of its result.
 *
 * Every rank calls coll_measure with the same test. Ranks may be threads or machines: over the link itself they agree
 * on when to begin, and tell each other their times. */
#pragma once
#include "comm/coll.h"

/* A test. Each rank makes its data from the seed: to sum, a tensor of rows * cols floats; to gather, its columns of one
 * such tensor, which travel in codec.sum. */
typedef struct coll_test {
    const coll_kind *kind;
    wire_pair codec;
    int64_t rows, cols, group;
    int64_t reps;
    uint64_t seed;
    const wire_ops *wire;
    bool (*ends)(const void *of);     /* somebody else has gone, and nobody waits for the result; NULL: never */
    uint64_t (*sent)(const void *of); /* bytes that this rank has put into sockets for it; NULL: there are none */
    const void *of;
} coll_test;

typedef struct coll_score {
    double seconds, seconds_min, seconds_max; /* of the last rank to be done; median, least and most of all times */
    double payload;                           /* bytes that a rank sent, each time; mean over ranks */
    double sockets;                           /* the same as it left by sockets, but for what only measuring needs */
    double error;                             /* length of result - exact by that of the exact one, in f32 */
    uint64_t hash;                            /* of the result */
    bool equal;                               /* the hash is that of every rank */
} coll_score;

/* Element i of the data of a rank. */
float coll_value(const coll_test *t, int rank, int64_t i);
/* Sets error and hash of a result x; median, least and most of n times, which are sorted. */
void coll_judge(const coll_test *t, int ranks, const float *x, coll_score *to);
void coll_times(double *seconds, int64_t n, coll_score *to);

/* Bytes of memory that others may read until all ranks have returned: a failure of one does not stop them at once. */
uint64_t coll_measure_bytes(const coll_test *t, int rank, int ranks);
/* Uses channels channel0 … channel0 + COLL_CHANNELS - 1, and that memory, aligned to 64. The same score on every rank.
 * A rank that fails has to give up its end. */
int coll_measure(link_end *l, int channel0, const coll_test *t, void *memory, coll_score *to, err *e);
