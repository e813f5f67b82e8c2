/* node_state.h - what a node is made of, for node.c and for handlers of what visitors ask for: whoever has come in and
 * has not said yet whether as a leader, who asks for a rank, or as another rank of a plan of which one is here. */
#pragma once
#include "net/door.h"
#include "net/hosted_rank.h"
#include "net/node.h"
#include "net/on_measure.h"
#include "net/part_share.h"

#include <stdatomic.h>

#define ASK_SECONDS 5.0 /* after which a visitor has said what it wants */

typedef struct visitor {
    struct visitor *next;
    node *of;
    peer *p;
    hosted_rank *_Atomic rank; /* NULL: nothing was said yet, or it waits to join */
    measuring *measures;
    int from; /* the rank there, which has joined `rank`; -1: the leader */
    lease_join join;
    bool joins;           /* it said JOIN */
    bool waits;           /* and the rank is not there, or has no links yet; under the lock */
    atomic_bool asks;     /* something has begun to come that is more than a sign of life */
    double until;         /* when it has to have asked, or its rank to be known */
    bool gone, closes;    /* its connections were lost; are being closed */
    err lost;             /* gone: why */
    progress_watch watch; /* of a lease with something to do */
    double rest;          /* seconds for which that has not moved */
    uint8_t *room;        /* for a message */
} visitor;

struct node {
    node_options o;
    peer_self self;
    rank_host host;
    memory_quota memory;
    tally done;
    peer_bytes before; /* by connections that were closed */
    double looked;     /* clock_now of the last look_at_leases */
    keeper *copies;
    part_table shared;
    lists told;
    address at;
    door *d;
    pthread_mutex_t lock;
    visitor *visitors;
    int n_visitor;
    int n_closing; /* threads that close visitors */
    pthread_cond_t closed;
    bool drains;
};

/* msg_handler.admit of what asks for a rank. */
int visitor_admit(void *to, peer *from, const frame_head *h, uint8_t **room, err *e);
/* The visitor becomes the leader of a rank. ERR_BUSY: the node drains. */
int visitor_host(visitor *g, hosted_opener *open, span payload, err *e);
/* The end of every `take`: says in the log why a visitor was refused, and tells one that may go elsewhere
 * (ERR_BUSY). */
int visitor_settle(visitor *g, int rc, err *e);

/* Visitors that wait to join a rank that has links now: on_join.c. ctx: the node. */
void join_waiting(void *ctx);
