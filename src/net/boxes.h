/* boxes.h - messages of known size between two processes: what collectives and edges send while steps run.
 *
 * Both sides have the same boxes. Box i holds two messages in each direction, of at most so many bytes as were agreed
 * before memory was taken; a third waits until the other side has released the first. That it did travels with messages
 * the other way, two in the head of each; alone only where a box would run out of places for the lack of them. A
 * message with no place or too large ends the connection.
 *
 * Small messages leave on the posting thread if the connection takes them at once; a thread of the boxes sends the
 * others. After opening nothing is allocated. Of a box one thread at a time posts, takes and releases; readers of the
 * peer deliver. */
#pragma once
#include "base/signal_word.h"
#include "net/peer.h"

enum { BOXES_MAX = 1024 };

typedef struct boxes boxes;

/* n boxes for messages of at most bytes[i]. `name`: of the other side, for messages. */
int boxes_open(boxes **out, int n, const uint64_t *bytes, const char *name, err *e);
/* Reached through this peer from now on; its use.admit and use.take pass messages of boxes on. Several may share one,
 * each with a mark that its messages bear (boxes_mark). */
int boxes_join(boxes *b, peer *p, int mark, err *e);
int boxes_mark(const frame_head *h);
/* `word` moves when a message comes in boxes first … first + n - 1, or one of theirs was taken; or when the boxes fail.
 * Before boxes_join. */
void boxes_watch(boxes *b, int first, int n, signal_word *word);
/* Nothing is sent any more but what is under way: waits for that (peer_drop ends it). Then the peer may be closed. */
void boxes_stop(boxes *b);
/* After peer_close of its peer, before what was posted is freed. NULL ok. */
void boxes_close(boxes *b);

/* As link_kind (core/link.h); a message is taken when its bytes are no longer needed and the next has a place. */
int boxes_post(boxes *b, int box, const void *bytes, uint64_t n, err *e);
bool boxes_taken(boxes *b, int box);
int boxes_take(boxes *b, int box, uint64_t n, const void **bytes, err *e);
void boxes_release(boxes *b, int box);

/* OK, or why nothing goes on: the peer is lost, or says that it failed. */
int boxes_check(const boxes *b, err *e);
/* Tells the other side that this one failed; from any thread that may wait. */
void boxes_give_up(boxes *b, int code, const char *why);
void boxes_lost(boxes *b, const err *why); /* peer_use.lost */

/* Messages of boxes (msg.h), as peer_use has them. */
bool boxes_know(uint16_t kind);
int boxes_admit(boxes *b, const frame_head *h, uint8_t **room, err *e);
int boxes_deliver(boxes *b, const frame_head *h, const uint8_t *payload, err *e);
