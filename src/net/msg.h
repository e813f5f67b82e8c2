/* msg.h - what processes say to each other: one row a message; its number is the kind of its frames (net/frame.h).
 *
 * A row names what takes the message, and there is a handler for it, on_<NAME>, in the file that knows how. Peers
 * (net/peer.h) look the row up before a byte is kept: a kind that nobody knows, that comes from the wrong side, that is
 * larger than the row says, or whose receiver the connection does not have, ends the connection. So a new message is a
 * row and its handler. */
#pragma once
#include "base/buf.h"
#include "net/frame.h"
#include "net/tcp.h"

#include <stddef.h>
#include <stdint.h>

/* 2: PONGs tell how work goes on, DONE names rows at fault, DRAINING. 3: lists of tensors go by their digest, pieces of
 * weights with proofs. 4: who dials makes up the token of its pair, and says what it wants behind the hello (hello.h);
 * rows of the leader's ranks go over the connections of the lease; a LEASE asks for the memory too. 6: a
 * step may want several of the best logits of a row. 7: slots keep rows apart. Processes of versions before are served
 * without these. */
enum {
    PROTOCOL_MIN = 1,
    PROTOCOL_MAX = 7,
    PROTOCOL_LISTS = 3,
    PROTOCOL_QUICK = 4,
    PROTOCOL_SHARED = 4,
    PROTOCOL_NAMES = 5,
    PROTOCOL_BEST = 6,
    PROTOCOL_APART = 7
};
enum { LEASE_BYTES_MAX = 1 << 23, LIST_BYTES_MAX = 1 << 28 };

enum { MSG_TO_NODE = 1, MSG_TO_LEADER = 2, MSG_BOTH = 3 }; /* leader: who dialled */
enum { MSG_IN_ORDER = 4 };                                 /* by the control connection alone */

/* What the bytes of a message are for, as metrics count them; of no use: signs of life, hellos. */
typedef enum { USE_NONE, USE_STEP, USE_DATA, USE_WEIGHT, USE_COUNT } msg_use;

/* What takes messages: kinds of things to which a connection leads. A handler is given the one of its connection. */
typedef enum {
    FOR_PEER,     /* the connection itself: net/peer.c */
    FOR_VISITOR,  /* who has come in and not said yet what for: node_state.h */
    FOR_LEASE,    /* on a node: a rank of a plan: lease_state.h */
    FOR_TRIAL,    /* on a node: a rank of a trial: on_trial.c */
    FOR_FETCH,    /* on a node: fetch.h */
    FOR_RANK,     /* on the leader: a rank on a node: leader_state.h */
    FOR_QUESTION, /* of whoever asked: question.h */
    FOR_MAILBOXES /* between two ranks: mailboxes.h */
} msg_receiver;

/* X(name, number, direction, receiver, use, bytes at most, what it says) */
#define MSG_LIST(X)                                                                                                    \
    X(HELLO, 1, MSG_BOTH, FOR_PEER, USE_NONE, 4096,                                                                    \
      "who I am, what I speak, what I lend; the first frame of a connection each way")                                 \
    X(PING, 2, MSG_BOTH, FOR_PEER, USE_NONE, FRAME_SMALL, "I am here; a number (the channel) and any bytes")           \
    X(PONG, 3, MSG_BOTH, FOR_PEER, USE_NONE, FRAME_SMALL,                                                              \
      "number and bytes of a PING, to number 0 how work goes on: net/progress.h; none where the way back is full")     \
    X(PROBE, 4, MSG_BOTH, FOR_PEER, USE_NONE, FRAME_SMALL,                                                             \
      "bytes that nobody needs: the rate of a connection is measured by them")                                         \
    X(DATA, 16, MSG_BOTH, FOR_MAILBOXES, USE_DATA, UINT32_MAX,                                                         \
      "a message of a mailbox, which knows its size; perhaps mailboxes that were released")                            \
    X(TAKEN, 17, MSG_BOTH, FOR_MAILBOXES, USE_DATA, 0, "mailboxes whose messages were released")                       \
    X(GIVE_UP, 18, MSG_BOTH, FOR_MAILBOXES, USE_DATA, ERR_MSG_MAX, "a step failed here: a code (4 bytes), then why")   \
    X(LEASE, 32, MSG_TO_NODE | MSG_IN_ORDER, FOR_VISITOR, USE_STEP, LEASE_BYTES_MAX,                                   \
      "a rank of a plan is asked for: net/lease_msg.h")                                                                \
    X(MEMORY, 33, MSG_TO_NODE | MSG_IN_ORDER, FOR_LEASE, USE_STEP, 64,                                                 \
      "what do pages of these types take there, and what is left?")                                                    \
    X(READY, 34, MSG_TO_NODE | MSG_IN_ORDER, FOR_LEASE, USE_STEP, 256,                                                 \
      "so many pages and slots; steps follow when ranks have joined each other")                                       \
    X(ANSWER, 35, MSG_BOTH | MSG_IN_ORDER, FOR_QUESTION, USE_STEP, FRAME_SMALL,                                        \
      "to the last of these, or to a JOIN: done, or why not")                                                          \
    X(STEP, 36, MSG_TO_NODE | MSG_IN_ORDER, FOR_LEASE, USE_STEP, UINT32_MAX,                                           \
      "a step: net/step_code.h; the channel is its number")                                                            \
    X(DONE, 37, MSG_TO_LEADER | MSG_IN_ORDER, FOR_RANK, USE_STEP, FRAME_SMALL,                                         \
      "a step is done here: an ANSWER, seconds, rows at fault; the channel is its number")                             \
    X(JOIN, 38, MSG_TO_NODE | MSG_IN_ORDER, FOR_VISITOR, USE_STEP, 64,                                                 \
      "this connection is between two ranks of a plan: a token")                                                       \
    X(MEASURE, 39, MSG_TO_NODE | MSG_IN_ORDER, FOR_VISITOR, USE_NONE, TCP_NAME_MAX,                                    \
      "how fast is the link to this other node? (net/on_measure.h)")                                                   \
    X(TRIAL, 40, MSG_TO_NODE | MSG_IN_ORDER, FOR_VISITOR, USE_NONE, FRAME_SMALL,                                       \
      "a rank is asked for that measures collectives: net/trial_msg.h")                                                \
    X(TEST, 41, MSG_TO_NODE | MSG_IN_ORDER, FOR_TRIAL, USE_NONE, 256,                                                  \
      "of a trial: measure this one, with the other ranks")                                                            \
    X(DRAINING, 44, MSG_TO_LEADER | MSG_IN_ORDER, FOR_RANK, USE_STEP, 0,                                               \
      "this node ends soon: what has a spare leaves it between two steps")                                             \
    X(GET, 42, MSG_TO_LEADER, FOR_RANK, USE_WEIGHT, FRAME_SMALL,                                                       \
      "bytes of tensors: net/piece_ask.h; the channel is a number")                                                    \
    X(PIECE, 43, MSG_TO_NODE, FOR_FETCH, USE_WEIGHT, 1 << 23,                                                          \
      "those of the GET with this number, with their proof (net/piece_proof.h); of protocol 2: after their SHA-256")   \
    X(GET_LIST, 45, MSG_TO_LEADER, FOR_RANK, USE_WEIGHT, 32,                                                           \
      "the list of tensors with this digest, as the LEASE names it")                                                   \
    X(LIST, 46, MSG_TO_NODE, FOR_FETCH, USE_WEIGHT, LIST_BYTES_MAX, "it: net/catalogue.h")

typedef enum msg_kind {
#define X(name, number, ...) MSG_##name = number,
    MSG_LIST(X)
#undef X
} msg_kind;

typedef struct peer peer;

/* What is done with a message that came from `from` to the receiver of its row. By a reading thread, which must not
 * wait; an error ends the connection. */
typedef struct msg_handler {
    /* May it come now? Sets *room as frame_sink. NULL: yes, and it is small. */
    int (*admit)(void *to, peer *from, const frame_head *h, uint8_t **room, err *e);
    int (*take)(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e);
    /* Of messages that `take` puts off (hosted_put_off): by the thread of the rank, whose answer it makes. */
    int (*answer)(void *rank, span payload, buf *more, err *e);
} msg_handler;

#define X(name, ...) extern const msg_handler on_##name;
MSG_LIST(X)
#undef X

typedef struct msg_row {
    const char *name;
    uint16_t kind;
    uint8_t direction;
    msg_receiver receiver;
    msg_use use;
    uint32_t bytes_max;
    const msg_handler *on;
} msg_row;

/* The row of a kind; NULL: there is none. */
const msg_row *msg_find(uint16_t kind);
