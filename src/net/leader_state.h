/* leader_state.h - what a leader is made of, for leader.c and for what its ranks on nodes say (on_rank.c). */
#pragma once
#include "net/leader.h"
#include "net/question.h"
#include "net/rank_links.h"
#include "net/step_code.h"
#include "net/supply.h"

#include <stdatomic.h>

/* A rank on a node. */
typedef struct remote_rank {
    leader *of;
    int rank;
    peer *control;
    supply *pieces;     /* for a node without a copy */
    atomic_ullong done; /* steps */
    question q;
    bool asked;  /* for the lease, with the hello */
    bool counts; /* it was asked for its memory, with others, and the answer was not looked at */
    bool told;   /* its memory came with the lease, and nothing there was taken since */
    lease_memory memory;
    int64_t hashed_at;       /* leader_node.hashed_at */
    _Atomic double *sent_at; /* [in_flight] clock_now of steps, by number */
    progress_watch watch;    /* of its steps, under the lock of `asks` */
    double done_at;          /* of the last step; of the reading thread */
    _Atomic double wait;     /* leader_node.wait */
} remote_rank;

struct leader {
    const model *m;
    leader_options o;
    plan_remote remote;
    peer_self self;
    plan *l;
    buf spec;           /* of the model, as nodes are told */
    buf devices;        /* the list, the same */
    dtype kv_type;      /* the same */
    int n;              /* ranks of the plan */
    remote_rank *ranks; /* [n] those here are empty */
    rank_links_nodes nodes;
    rank_links *w;
    step_writer *writer;
    asking asks;
    bool closes;
    atomic_ullong sent;     /* steps */
    progress_watch watch;   /* of all ranks together, of those here too; under the lock of `asks`, as the next */
    double began, expected; /* of the steps under way: when the oldest could begin; what the longest should take */
    err leaving;            /* a node is about to end; under the lock of `asks`; code OK: none */
};

static inline bool leader_is_remote(const leader *d, int rank) { return plan_node(d->l, rank) != NULL; }

/* Whether a rank has done this step; those here always have. */
static inline bool leader_has_done(const leader *d, int rank, uint64_t number)
{
    return !leader_is_remote(d, rank) || atomic_load(&d->ranks[rank].done) > number;
}

/* As peer_use has them, with a remote_rank: what the node says of its work; whether it stands still in a step, or
 * answers nothing. */
void rank_hear(void *ctx, const progress *said);
int rank_look(void *ctx, err *e);
