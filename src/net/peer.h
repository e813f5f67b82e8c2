/* peer.h - another process of ours, reached by a control and a bulk connection, each with a thread that reads it.
 *
 * What is small and urgent goes by control, tensors and weights by bulk. Each side sends a PING where it has sent
 * nothing else for a quarter of the silence that is allowed, the longer of what the two allow; one from which nothing
 * came for all of it counts as dead, however healthy its connections look. One that answers and stands still is known
 * by what its PONGs say (progress.h). */
#pragma once
#include "net/frame.h"
#include "net/hello.h"
#include "net/msg.h"
#include "net/progress.h"
#include "net/tcp.h"

typedef enum { PEER_CONTROL, PEER_BULK } peer_way;

/* Who this process is to others. */
typedef struct peer_self {
    uint8_t key[KEY_BYTES];
    hello me;        /* role, answer and token are set by connection */
    double patience; /* seconds that it dials, until both sides have said hello: at most 5; 0: 5 */
} peer_self;

/* With the key of a file; me as hello_init leaves it. */
int peer_self_open(peer_self *s, const char *key_file, err *e);

/* What a process that dials says right behind its hello, before it has heard anything, where the other side takes that
 * (tls_named): one frame. */
typedef struct peer_first {
    frame_head head;
    const void *payload;
    bool said; /* before an answer can come */
} peer_first;

/* To what a connection leads. Called by reading threads, which must not wait. */
typedef struct peer_use {
    void *ctx;
    /* The receiver of this kind to which message h goes; NULL: there is none. Asked before the message comes, and when
     * it is there; then what its handler admitted has the same receiver. The member is NULL: no message may come. */
    void *(*receiver)(void *ctx, peer *p, const frame_head *h, msg_receiver kind);
    void (*lost)(void *ctx, peer *p, const err *why); /* once; not after peer_close has begun */
    /* NULL ok: what this process has done for the other side, as PONGs tell it; what the other side has; whether it
     * stands still, asked a few times a second: an error loses it. By the thread that reads the control connection. */
    void (*tell)(void *ctx, progress *mine);
    void (*hear)(void *ctx, const progress *theirs);
    int (*look)(void *ctx, err *e);
    /* NULL ok, of a process that dials: the message; whether the connection is still wanted (false: ERR_CANCELLED),
     * asked before a word is said. `quick`: the first message goes with the hello. */
    peer_first *first;
    bool (*wanted)(void *ctx, bool quick);
} peer_use;

/* Connects to a process that listens. ERR_IO: it cannot be reached now; ERR_BUSY: it has no room; ERR_FORMAT: it will
 * never do. Messages begin with the address. */
int peer_dial(peer **out, const address *to, const peer_self *self, const peer_use *use, err *e);
/* What the process at `to` says of itself. */
int peer_look(hello *out, const address *to, const peer_self *self, err *e);
/* The first frame each way: sends a hello (that takes no waiting); what receives one into *theirs by frame_take. */
int peer_greet(frames *f, const hello *mine, err *e);
frame_sink peer_greeting(hello *theirs);
/* Makes one of two connections that were greeted; takes them, also when it fails. Nothing is read before peer_start. */
peer *peer_join(frames *control, frames *bulk, const char *name, bool dialled, const hello *mine, const hello *theirs);
int peer_start(peer *p, const peer_use *use, err *e);
/* Ends the connections and waits for the threads. Not from a reading thread. NULL ok. Who holds the peer may go on
 * calling it, in vain, until he lets go. */
void peer_close(peer *p);
void peer_hold(peer *p);
void peer_let_go(peer *p);

int peer_send(peer *p, peer_way way, const frame_head *h, const void *payload, err *e);
/* As frame_offer. */
bool peer_offer(peer *p, peer_way way, const frame_head *h, const void *payload);
/* Seconds until `bytes` (at most FRAME_SMALL) came back. ERR_IO after the silence that is allowed. One thread at a
 * time. */
int peer_ping(peer *p, peer_way way, uint32_t bytes, double *seconds, err *e);
/* Ends the connections; `lost` is called with this message. From any thread. */
void peer_drop(peer *p, const err *why);

const char *peer_name(const peer *p);    /* the address, as it was given or came in */
bool peer_left(const peer *p);           /* one that is lost has ended the connection itself */
const hello *peer_hello(const peer *p);  /* what it says of itself */
int peer_protocol(const peer *p);        /* the newest that both sides speak */
uint64_t peer_bulk_taken(const peer *p); /* bytes of messages that came by bulk; signs of life there have none */
double peer_measured_at(const peer *p);  /* when the other side last measured the way; 0: it did not */
double peer_rtt(const peer *p);          /* seconds, of the last PING; 0: unknown yet */
uint64_t peer_sent(const peer *p);       /* bytes that left by its sockets, but for signs of life */
/* Adds the bytes of messages, with their heads, that were sent and received whole, by use. */
typedef struct peer_bytes {
    uint64_t sent[USE_COUNT], received[USE_COUNT];
} peer_bytes;
void peer_count(const peer *p, peer_bytes *to);
