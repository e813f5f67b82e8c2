/* ways.h - the connections between ranks in different processes: one for each two that hand each other something, with
 * boxes for the channels between them.
 *
 * Ranks of the leader use the connections of the lease (ways_share), from protocol 4 on. Of two ranks on nodes either
 * may dial (net/meet.h); a connection shows the token that the leader gave both sides, so nobody else can take a rank's
 * place. Where both dial, that of the lower rank counts, unless that rank took the other's before it had said anything.
 * When one connection is lost, all are: the ranks cannot go on. */
#pragma once
#include "net/lease_msg.h"
#include "net/peer.h"
#include "plan/plan.h"

typedef struct ways ways;

typedef struct ways_use {
    void *ctx;
    void (*lost)(void *ctx, const err *why); /* once; from any thread */
} ways_use;

/* What ranks hand each other. */
typedef struct ways_shape {
    int ranks, lanes, channels; /* channels: of a lane, between any two */
    const void *of;
    uint64_t (*bytes)(const void *of, int a, int b, int channel); /* of the largest message, either way; 0: none */
    const char *(*node)(const void *of, int rank);                /* "a:7071"; NULL: the process that leads */
} ways_shape;

ways_shape ways_of_plan(const plan *l); /* as plan/far.h says */

/* Whom a rank on a node meets: ranks that it hands something, or takes it from, and what the leader calls their nodes
 * and its own; "": the leader's own. */
typedef struct ways_others {
    int rank, ranks;
    bool is[LINK_RANKS_MAX];
    char node[LINK_RANKS_MAX][TCP_NAME_MAX];
} ways_others;

/* What a leader knows of ranks: where those on nodes are, and what a connection between two shows, in either order. */
typedef struct ways_nodes {
    address at[LINK_RANKS_MAX];
    uint8_t token[LINK_RANKS_MAX][LINK_RANKS_MAX][LEASE_TOKEN];
} ways_nodes;

/* Makes boxes, and the link among threads, for the ranks here; here [ranks]. The shape is used while it opens. */
int ways_open(ways **out, const ways_shape *s, const bool *here, const ways_use *use, err *e);
/* The same in two parts, so that ranks meet while a model is opened: connections can be made after the first one,
 * messages of boxes come after the second. ERR_FORMAT: others hand each other something than was said. */
int ways_begin(ways **out, const ways_others *o, const ways_use *use, err *e);
int ways_fill(ways *w, const ways_shape *s, const bool *here, err *e);
void ways_others_of(ways_others *to, const ways_shape *s, int rank, const char *mine);
/* Rank a, which is here, reaches rank b by this connection, which stays its owner's; messages both ways bear the mark
 * (the rank that is the leader's). Before any message of a box can come. */
int ways_share(ways *w, int a, int b, int mark, peer *p, err *e);
/* Dials the process that has rank b, for rank a, which is here, and waits so long for it to agree; does nothing when
 * they hand each other nothing, or the other side was quicker. It may be tried again after it failed. */
int ways_dial(ways *w, int a, int b, const address *at, const uint8_t token[LEASE_TOKEN], const peer_self *self,
              double seconds, err *e);
/* Whether ranks a, which is here, and b are without a connection that they need, still after so many seconds. False
 * also when all are lost. */
bool ways_misses(ways *w, int a, int b, double seconds);
int ways_make_tokens(ways_nodes *n, int ranks, err *e);
/* ways_dial from every rank here, of a leader. */
int ways_dial_all(ways *w, const ways_nodes *n, const peer_self *self, err *e);
/* A process that dialled showed the token for ranks b there and a here: its messages go to the boxes from now on.
 * ERR_FORMAT: they hand each other nothing; ERR_BUSY: there is a connection already, or one that comes first. Does not
 * wait. */
int ways_accept(ways *w, int a, int b, peer *p, err *e);
/* Waits until all are there. *missing: the rank that one is missing to; -1: all are there, or lost. */
int ways_wait(ways *w, double seconds, int *missing, err *e);
link_end *ways_end(const ways *w, int a, int lane); /* of a rank here */
/* Bytes that connections of rank a, which is here, have put into sockets, but for signs of life. Not after one of them
 * was closed. */
uint64_t ways_sent(const ways *w, int a);
/* Adds what those of the ranks here with rank b have carried, as peer_count. */
void ways_count(const ways *w, int b, peer_bytes *to);
void ways_count_dialled(const ways *w, peer_bytes *to); /* of those that this process dialled */

/* Messages of an accepted connection, as peer_use has them; and of a shared one. */
int ways_admit(ways *w, int a, int b, const frame_head *h, uint8_t **room, err *e);
int ways_take(ways *w, int a, int b, const frame_head *h, const uint8_t *payload, err *e);
bool ways_know(uint16_t kind); /* messages of boxes */
int ways_shared_admit(ways *w, const peer *p, const frame_head *h, uint8_t **room, err *e);
int ways_shared_take(ways *w, const peer *p, const frame_head *h, const uint8_t *payload, err *e);
/* Ends all waiting of ranks; they fail with this. */
void ways_fail(ways *w, const err *why);
bool ways_failed(const ways *w); /* that was called, or a connection is lost */
/* Ends all connections, and the threads that send: then those accepted may be closed. No rank may work. */
void ways_stop(ways *w);
/* Ends the connections that were dialled. Those accepted must be closed before. No rank may work. NULL ok. */
void ways_close(ways *w);
