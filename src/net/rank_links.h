/* rank_links.h - the connections between ranks in different processes: one for each two that hand each other something,
 * with mailboxes for the channels between them.
 *
 * Ranks of the leader use the connections of the lease (rank_links_share), from protocol 4 on. Of two ranks on nodes
 * either may dial (net/meet.h); a connection shows the token that the leader gave both sides, so nobody else can take a
 * rank's place. Where both dial, that of the lower rank counts, unless that rank took the other's before it had said
 * anything. When one connection is lost, all are: the ranks cannot go on. */
#pragma once
#include "net/lease_msg.h"
#include "net/mailboxes.h"
#include "net/peer.h"
#include "plan/plan.h"

typedef struct rank_links rank_links;

typedef struct rank_links_use {
    void *ctx;
    void (*lost)(void *ctx, const err *why); /* once; from any thread */
} rank_links_use;

/* What ranks hand each other. */
typedef struct rank_links_shape {
    int ranks, lanes, channels; /* channels: of a lane, between any two */
    const void *of;
    uint64_t (*bytes)(const void *of, int a, int b, int channel); /* of the largest message, either way; 0: none */
    const char *(*node)(const void *of, int rank);                /* "a:7071"; NULL: the process that leads */
} rank_links_shape;

rank_links_shape rank_links_of_plan(const plan *l); /* as plan/remote.h says */

/* Whom a rank on a node meets: ranks that it hands something, or takes it from, and what the leader calls their nodes
 * and its own; "": the leader's own. */
typedef struct rank_links_others {
    int rank, ranks;
    bool is[LINK_RANKS_MAX];
    char node[LINK_RANKS_MAX][TCP_NAME_MAX];
} rank_links_others;

/* What a leader knows of ranks: where those on nodes are, and what a connection between two shows, in either order. */
typedef struct rank_links_nodes {
    address at[LINK_RANKS_MAX];
    uint8_t token[LINK_RANKS_MAX][LINK_RANKS_MAX][LEASE_TOKEN];
} rank_links_nodes;

/* Makes mailboxes, and the link among threads, for the ranks here; here [ranks]. The shape is used while it opens. */
int rank_links_open(rank_links **out, const rank_links_shape *s, const bool *here, const rank_links_use *use, err *e);
/* The same in two parts, so that ranks meet while a model is opened: connections can be made after the first one,
 * messages of mailboxes come after the second. ERR_FORMAT: others hand each other something than was said. */
int rank_links_begin(rank_links **out, const rank_links_others *o, const rank_links_use *use, err *e);
int rank_links_fill(rank_links *w, const rank_links_shape *s, const bool *here, err *e);
void rank_links_others_of(rank_links_others *to, const rank_links_shape *s, int rank, const char *mine);
/* Rank a, which is here, reaches rank b by this connection, which stays its owner's; messages both ways bear the mark
 * (the rank that is the leader's). Before any message of a mailbox can come. */
int rank_links_share(rank_links *w, int a, int b, int mark, peer *p, err *e);
/* Dials the process that has rank b, for rank a, which is here, and waits so long for it to agree; does nothing when
 * they hand each other nothing, or the other side was quicker. It may be tried again after it failed. */
int rank_links_dial(rank_links *w, int a, int b, const address *at, const uint8_t token[LEASE_TOKEN],
                    const peer_self *self, double seconds, err *e);
/* Whether ranks a, which is here, and b are without a connection that they need, still after so many seconds. False
 * also when all are lost. */
bool rank_links_misses(rank_links *w, int a, int b, double seconds);
int rank_links_make_tokens(rank_links_nodes *n, int ranks, err *e);
/* rank_links_dial from every rank here, of a leader. */
int rank_links_dial_all(rank_links *w, const rank_links_nodes *n, const peer_self *self, err *e);
/* A process that dialled showed the token for ranks b there and a here: its messages go to the mailboxes from now on.
 * ERR_FORMAT: they hand each other nothing; ERR_BUSY: there is a connection already, or one that comes first. Does not
 * wait. */
int rank_links_accept(rank_links *w, int a, int b, peer *p, err *e);
/* Waits until all are there. *missing: the rank that one is missing to; -1: all are there, or lost. */
int rank_links_wait(rank_links *w, double seconds, int *missing, err *e);
link_end *rank_links_end(const rank_links *w, int a, int lane); /* of a rank here */
/* Bytes that connections of rank a, which is here, have put into sockets, but for signs of life. Not after one of them
 * was closed. */
uint64_t rank_links_sent(const rank_links *w, int a);
/* Adds what those of the ranks here with rank b have carried, as peer_count. */
void rank_links_count(const rank_links *w, int b, peer_bytes *to);
void rank_links_count_dialled(const rank_links *w, peer_bytes *to); /* of those that this process dialled */

/* Where messages of a connection go (peer_use.receiver): of one that was accepted for ranks a here and b there; of a
 * shared one. NULL: none yet. */
mailboxes *rank_links_mailboxes(const rank_links *w, int a, int b);
mailboxes *rank_links_shared_mailboxes(const rank_links *w, const peer *p, const frame_head *h);
/* Ends all waiting of ranks; they fail with this. */
void rank_links_fail(rank_links *w, const err *why);
bool rank_links_failed(const rank_links *w); /* that was called, or a connection is lost */
/* Ends all connections, and the threads that send: then those accepted may be closed. No rank may work. */
void rank_links_stop(rank_links *w);
/* Ends the connections that were dialled. Those accepted must be closed before. No rank may work. NULL ok. */
void rank_links_close(rank_links *w);
