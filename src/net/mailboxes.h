/* mailboxes.h - messages of known size between two processes: what collectives and edges send while steps run.
 *
 * Both sides have the same mailboxes. Mailbox i holds two messages in each direction, of at most so many bytes as were
 * agreed before memory was taken; a third waits until the other side has released the first. That it did travels with
 * messages the other way, two in the head of each; alone only where a mailbox would run out of places for the lack of
 * them. A message with no place or too large ends the connection.
 *
 * Small messages leave on the posting thread if the connection takes them at once; a thread of the mailboxes sends the
 * others. After opening nothing is allocated. Of a mailbox one thread at a time posts, takes and releases; readers of
 * the peer deliver. */
#pragma once
#include "base/signal_word.h"
#include "net/peer.h"

enum { MAILBOXES_MAX = 1024 };

typedef struct mailboxes mailboxes;

/* n mailboxes for messages of at most bytes[i]. `name`: of the other side, for messages. */
int mailboxes_open(mailboxes **out, int n, const uint64_t *bytes, const char *name, err *e);
/* Reached through this peer from now on; whose peer_use.receiver finds them. Several may share
 * one, each with a mark that its messages bear (mailboxes_mark). */
int mailboxes_join(mailboxes *b, peer *p, int mark, err *e);
int mailboxes_mark(const frame_head *h);
/* `word` moves when a message comes in mailboxes first … first + n - 1, or one of theirs was taken; or when the
 * mailboxes fail. Before mailboxes_join. */
void mailboxes_watch(mailboxes *b, int first, int n, signal_word *word);
/* Nothing is sent any more but what is under way: waits for that (peer_drop ends it). Then the peer may be closed. */
void mailboxes_stop(mailboxes *b);
/* After peer_close of its peer, before what was posted is freed. NULL ok. */
void mailboxes_close(mailboxes *b);

/* As link_kind (core/link.h); a message is taken when its bytes are no longer needed and the next has a place. */
int mailboxes_post(mailboxes *b, int box, const void *bytes, uint64_t n, err *e);
bool mailboxes_taken(mailboxes *b, int box);
int mailboxes_take(mailboxes *b, int box, uint64_t n, const void **bytes, err *e);
void mailboxes_release(mailboxes *b, int box);

/* OK, or why nothing goes on: the peer is lost, or says that it failed. */
int mailboxes_check(const mailboxes *b, err *e);
/* Tells the other side that this one failed; from any thread that may wait. */
void mailboxes_give_up(mailboxes *b, int code, const char *why);
void mailboxes_lost(mailboxes *b, const err *why); /* peer_use.lost */
