/* frame.h - messages on one connection: a head of 16 bytes and a payload, cut into records of TLS.
 *
 *     u32 bytes of the payload | u16 kind | u16 0, or 1 in the further records of a large frame | u64 channel
 *
 * A small frame is one record. A large one fills records, each with the same head but for that mark, and small frames
 * may stand between them: whoever sends a small frame waits for one record at most. One large frame is under way at a
 * time. All numbers are little-endian.
 *
 * The receiver is asked whether a frame may come before a byte of it is kept. */
#pragma once
#include "base/err.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stdint.h>

enum { FRAME_HEAD = 16, FRAME_SMALL = TLS_RECORD - FRAME_HEAD };

typedef struct frame_head {
    uint32_t bytes;
    uint16_t kind; /* msg.h */
    uint64_t channel;
} frame_head;

/* Where frames go. An error ends the connection. */
typedef struct frame_sink {
    void *ctx;
    /* May this frame come? Sets *room for one larger than FRAME_SMALL: h->bytes, its until take. */
    int (*admit)(void *ctx, const frame_head *h, uint8_t **room, err *e);
    /* It is there; `payload` is the room, or valid during the call. */
    int (*take)(void *ctx, const frame_head *h, const uint8_t *payload, err *e);
} frame_sink;

typedef struct frames frames;

/* Takes the connection, also when it fails. NULL: out of memory. */
frames *frames_open(tls *c);
tls *frames_tls(frames *f);
void frames_cut(frames *f); /* tls_cut: senders and the receiver fail */
/* Tells the other side that nothing more comes, unless a record is just under way. */
void frames_end(frames *f);
void frames_close(frames *f); /* NULL ok */

/* Sends a frame, from any thread; waits for the frames that are before it, and for the other side to take it (ERR_IO
 * after FRAME_STALL seconds without progress). */
int frame_send(frames *f, const frame_head *h, const void *payload, err *e);
enum { FRAME_STALL = 30 };
/* Sends a small frame if that takes no waiting: what a receiver may do, which must not wait. False: it was not sent. */
bool frame_offer(frames *f, const frame_head *h, const void *payload);

/* Receives one record; hands on a frame that is complete. One thread at a time. */
enum { FRAME_NONE = 1, FRAME_END }; /* nothing came until `until` (clock_now; 0: do not wait); the other side ended */
int frame_take(frames *f, const frame_sink *to, double until, err *e);
/* What frame_take does with a record. */
int frame_record(frames *f, span record, const frame_sink *to, err *e);

/* When something was sent and received last (clock_now). */
double frames_sent_at(const frames *f);
double frames_taken_at(const frames *f);
uint64_t frames_taken(const frames *f); /* bytes of payloads so far, also of frames that are under way */
