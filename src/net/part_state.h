/* part_state.h - what a part is made of, for part.c and for who shares it, part_share.c. */
#pragma once
#include "net/catalogue.h"
#include "net/fetch.h"
#include "net/part.h"

/* A rank that waits for another one to open the part. */
typedef struct waiting {
    const hosted_rank *by;
    struct waiting *next;
} waiting;

struct part {
    const rank_host *host;
    buf listed; /* the leader's list of tensors, as it came */
    catalogue told;
    model *m;
    store *pieces; /* of the leader's checkpoint, where the model is made of them; else NULL */
    plan *l;
    uint64_t fetched; /* bytes of weights from the leader, in memory */
    uint64_t quota;   /* bytes that it takes of the node's memory */
    int64_t hashed_at;
    uint8_t key[SHA256_BYTES];
    /* Under the lock of `parts`: */
    part *next;          /* of those that others may find */
    int users;           /* or who opens it */
    hosted_rank *opener; /* NULL: it is open */
    waiting *waits;
};

/* The list of the leader's tensors, which this node may have already. */
int part_read_list(part *x, const part_ask *of, err *e);
/* The rest of it; by one thread. */
int part_open(part *x, const part_ask *a, err *e);
void part_close(part *x);
