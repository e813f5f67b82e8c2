/* coll.h - a collective: what all ranks of a group do together at one place of their programs.
 *
 * Each rank walks through its side of it as a state machine that never blocks: coll_advance does what can be done now
 * and says whether it has to wait for others. Nothing is allocated: memory is given when a side is opened, as much as
 * coll_bytes asks for the largest job. All ranks do the same jobs in the same order.
 *
 * A side has two halves of memory and of channels, which jobs use in turn. So a rank that is ahead writes the next
 * job's bytes while others still read those of the last, and only the one after that has to wait. */
#pragma once
#include "core/link.h"
#include "tensor/wire.h"

#include <stdint.h>

enum { COLL_DONE, COLL_WAITS };
enum { COLL_STEP_CHANNELS = 2, COLL_CHANNELS = 2 * COLL_STEP_CHANNELS };

typedef struct coll coll;
typedef struct coll_job coll_job;

/* An algorithm. One const struct in coll_<name>.c and a line in coll_list.h. */
typedef struct coll_kind {
    const char *name;
    bool reduces; /* else it gathers */
    /* Bytes that one half needs for a job. */
    uint64_t (*bytes)(const coll_job *j, int rank, int ranks);
    /* The messages that a rank waits for one after another: a collective takes so many one-way delays of the link. */
    int (*hops)(int ranks);
    /* Goes on from c->step; COLL_DONE, COLL_WAITS or an error. */
    int (*advance)(coll *c, err *e);
} coll_kind;

/* One collective of one step. The caller keeps the struct unchanged until coll_advance has said COLL_DONE. */
struct coll_job {
    const coll_kind *kind;
    /* gather: every rank's part to all. The own part is written to coll_own before coll_begin; `put` gets each part,
     * the own one too, in any order, and may read it until it returns. Parts of 0 bytes are left out. */
    const uint64_t *bytes; /* [ranks] of each part */
    const bool *takes;     /* [ranks] who gets parts; NULL: all */
    int (*put)(void *self, int rank, const void *part, err *e);
    void *self;
    /* Reductions: x becomes the sum over all ranks. Partial sums travel in one codec, their sum in the other. */
    float *x; /* [rows, cols] */
    int64_t rows, cols;
    wire_type partial, sum;
    int64_t group;        /* elements under one scale; nothing is divided within a group */
    const wire_ops *wire; /* how this process codes */
};

/* One rank's side. */
struct coll {
    link_end *link;
    uint8_t *memory;
    uint64_t half; /* bytes */
    int channel0;
    uint64_t turn; /* jobs done */
    const coll_job *job;
    int step;
    uint64_t came; /* bit r: the message of rank r in this step */
};

/* Bytes of memory for a side that does this job, also with fewer rows. */
uint64_t coll_bytes(const coll_job *j, int rank, int ranks);
/* A side on channels channel0 … channel0 + COLL_CHANNELS - 1, in memory aligned to 64 bytes. */
void coll_open(coll *c, link_end *l, int channel0, void *memory, uint64_t bytes);

/* Waits until the memory for the next job is free: called before anything is written there. */
int coll_enter(coll *c, err *e);
/* Where the own part of the next job goes. */
void *coll_own(const coll *c);
void coll_begin(coll *c, const coll_job *j);
int coll_advance(coll *c, err *e);
/* Advances until the job is done, waiting in between. */
int coll_run(coll *c, err *e);

/* Waits until others have read all that was posted; then the memory may go. */
int coll_leave(coll *c, err *e);

/* ---- for algorithms */
/* The channel of a step. */
static inline int coll_channel(const coll *c, int at)
{
    return c->channel0 + (int)(c->turn % 2) * COLL_STEP_CHANNELS + at % COLL_STEP_CHANNELS;
}
