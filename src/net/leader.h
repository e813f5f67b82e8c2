/* leader.h - ranks on nodes, for the process that leads a plan: plan_remote (plan/plan.h) over connections. */
#pragma once
#include "models/model.h"
#include "net/own_list.h"
#include "net/peer.h"
#include "plan/plan.h"

typedef struct leader leader;

typedef struct leader_options {
    const char *key_file; /* of the key that it shares with the nodes */
    double timeout;       /* seconds of silence after which a node counts as dead */
    double patience;      /* peer_self.patience */
    const char *weights;  /* --weights; NULL: as stored */
    own_list *list;       /* the caller's; is made when it is needed, and outlives the leader */
    int sequences;        /* of a step, at most */
    bool inexact;
    void (*on_lost)(void *ctx);                 /* a node is lost; from any thread */
    dtype (*kv_type)(void *ctx, const plan *l); /* of the cache of the plan that opens */
    void *ctx;
} leader_options;

/* Nothing is connected before plan_open. The model must outlive it. */
int leader_open(leader **out, const model *m, const leader_options *o, err *e);
const plan_remote *leader_remote(const leader *d);
/* A node as it is now. */
typedef struct leader_node {
    const char *name; /* "a:7071", the plan's memory */
    uint64_t id;
    double rtt;                  /* seconds; 0: unknown */
    const char *pretended_speed; /* how fast it pretends to be, "2,500" (plan/pace.h); "": it does not */
    peer_bytes bytes;
    double wait; /* seconds in which its ranks had a step, or waited for rows of one, and did not compute */
    uint64_t page[GROUP_MAX]; /* bytes there of a page of each group */
    int64_t hashed_at;        /* contents_clock, when the oldest of what it reads was hashed; 0: not known */
} leader_node;
/* Whether a node has said that it ends soon; why begins with its address. From any thread. */
bool leader_is_left(leader *d, err *why);
/* Nodes of which ranks are open, each once; at most `most`. */
int leader_nodes(const leader *d, leader_node *out, int most);
void leader_close(leader *d); /* after plan_close; NULL ok */
