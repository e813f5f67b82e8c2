/* hosted_rank.h - on a node: one rank that a leader has here, from the message that asks for it (LEASE, TRIAL) to the
 * end of its connection: a thread that carries out what takes long and answers, links to the other ranks, and what it
 * takes of the memory that the node lends.
 *
 * A rank of a plan is a lease (lease_state.h), one that measures collectives a trial (on_trial.c). Each begins with a
 * hosted_rank. */
#pragma once
#include "core/backend.h"
#include "net/keeper.h"
#include "net/lists.h"
#include "net/meet.h"
#include "net/memory_quota.h"
#include "net/peer.h"
#include "net/rank_links.h"
#include "net/tally.h"
#include "plan/pace.h"

#include <pthread.h>
#include <time.h>

typedef struct hosted_rank hosted_rank;

/* What the node lends, and where it finds models. */
typedef struct rank_host {
    const backend_use *backends;
    const char *devices;       /* which it lends (plan/devices.h); NULL: all */
    const char *const *models; /* [n_model] paths of copies; none: the built-in model */
    int n_model;
    const char *cache;    /* folder for weights from leaders; NULL: in memory, unless there are copies */
    uint64_t cache_bytes; /* that it may take; 0: half of its disk */
    const peer_self *self;
    memory_quota *memory; /* of the node */
    keeper *copies;
    struct part_table *parts; /* net/part.h */
    lists *told;              /* of what leaders have */
    tally *done;              /* by all ranks */
    pace pretended_speed;     /* node --as */
    void (*met)(void *ctx);   /* a rank has links now: others that wait to join may; from any thread */
    void *ctx;
} rank_host;

/* What differs between leases and trials. Members but for the first two may be NULL. */
typedef struct hosted_kind {
    uint16_t first; /* the message that asks for one, whose `answer` opens it */
    void *(*receiver)(hosted_rank *r, peer *p, const frame_head *h, msg_receiver kind); /* as peer_use */
    void (*add_progress)(hosted_rank *r, progress *to);                                 /* to that of its thread */
    void (*end)(hosted_rank *r, const err *why); /* ends waiting; once, from any thread */
    void (*stop)(hosted_rank *r);                /* waits for threads of its own */
    void (*close)(hosted_rank *r);               /* frees all but itself */
} hosted_kind;

/* Makes one of the payload of that message, which came by `control`. */
typedef int hosted_opener(hosted_rank **out, const rank_host *host, peer *control, span payload, err *e);

struct hosted_rank {
    const hosted_kind *kind;
    const rank_host *host;
    peer *control; /* of the leader */
    int rank, ranks;
    const uint8_t (*token)[LEASE_TOKEN]; /* [ranks] that a connection between it and this one has to show */
    rank_links *links;                   /* NULL: none yet; under the lock */
    rank_links_others others;
    meeting *meets;
    uint64_t quota; /* bytes that it takes of the node's memory */
    pthread_t worker;
    bool works; /* that runs */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    buf pending;           /* of a message for the worker */
    uint16_t pending_kind; /* 0: none */
    bool carries;          /* out a message, on the worker */
    clockid_t worker_time; /* the processor time of that */
    bool over;
    err why; /* it is over */
};

/* Before anything else; then the opener sets rank, ranks, token. */
void hosted_open(hosted_rank *r, const hosted_kind *kind, const rank_host *host, peer *control);
/* Starts the thread, which opens it and answers: messages may come from now on. */
int hosted_begin(hosted_rank *r, err *e);
/* msg_handler.take of what the thread answers, one at a time. */
int hosted_put_off(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e);
/* Links to the ranks that `others` names, before more is known: ranks that wait to join may. Those of the leader share
 * the connection of the lease. */
int hosted_begin_links(hosted_rank *r, err *e);
/* Their mailboxes; where there are no links yet, as of an older leader and of a trial, those too. mine: what the leader
 * calls this node. */
int hosted_make_links(hosted_rank *r, const rank_links_shape *these, const char *mine, err *e);
rank_links *hosted_links(hosted_rank *r); /* NULL: none yet */
/* Waits until all ranks are connected. */
int hosted_await_links(const hosted_rank *r, err *e);
/* Whether the token is that of a rank `from` of this one's plan: then its links take the connection over, as
 * rank_links_accept. ERR_UNAVAILABLE: it has none yet. */
bool hosted_knows(const hosted_rank *r, const lease_join *j);
int hosted_join(hosted_rank *r, const lease_join *j, peer *p, err *e);
/* How far its work is, as PONGs say it. */
void hosted_progress(hosted_rank *r, progress *out);
/* Of that, what its thread does now: moves as it computes, loads, hashes or receives. */
uint64_t hosted_thread_work(hosted_rank *r);
/* Something was asked that is not answered, a step too. */
bool hosted_works(hosted_rank *r);
/* Adds the bytes of connections to other ranks that were dialled here, as peer_count. */
void hosted_count(hosted_rank *r, peer_bytes *to);
/* The leader or another rank is gone: work ends. From any thread, does not wait. */
void hosted_end(hosted_rank *r, const err *why);
bool hosted_is_over(const hosted_rank *r);
/* After hosted_end: waits for its threads; then nothing of it uses a connection. Not from a reading thread. */
void hosted_stop(hosted_rank *r);
/* When its connections were closed; NULL ok. */
void hosted_close(hosted_rank *r);
