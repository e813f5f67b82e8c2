/* question.h - questions to other processes and their answers (net/lease_msg.h). Several are asked before the first
 * answer is waited for; when one process is lost, so are all answers. */
#pragma once
#include "net/lease_msg.h"
#include "net/peer.h"

#include <pthread.h>

/* Whoever asks. */
typedef struct asking {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lost;
    err why;
    void (*on_lost)(void *ctx, const err *why);
    void *ctx;
} asking;

/* What one process is asked, one thing at a time. */
typedef struct question {
    asking *of;
    peer *to;
    bool asked;           /* not answered yet */
    progress_watch watch; /* of who was asked, from then on; under the lock of `of` */
    buf more;             /* of a good answer */
    err why;              /* of another one */
} question;

void asking_open(asking *a, void (*on_lost)(void *ctx, const err *why), void *ctx); /* once; from any thread; NULL ok */
void asking_close(asking *a);
/* Ends all waiting with this message. */
void asking_lose(asking *a, const err *why);

/* Errors are of the process (err_of): spares are taken by that. */
int question_ask(question *q, peer *to, uint16_t kind, const buf *message, err *e);
/* An answer will come to what is said by other means; and it will not, for this reason (named by the process). */
void question_expect(question *q);
void question_fail(question *q, const peer *p, const err *why);
/* Waits for the answer, which is in q->more if it is good; ERR_IO after so many seconds (INFINITY: never). */
int question_await(question *q, double seconds, err *e);
/* What who was asked says of its work. When it has stood still for too long, at most `busy` seconds: ERR_IO. */
void question_hear(question *q, const progress *said);
void question_moves(question *q); /* it does something for its answer */
int question_look(question *q, double busy, err *e);
/* peer_use.lost, with a question. */
void question_lost(void *ctx, peer *p, const err *why);
/* Of a connection to which only answers come. */
peer_use question_use(question *q);
/* One question to who is asked nothing else, on connections of its own: waits for the answer, at most so many seconds.
 * *more: what follows a good one. */
int question_once(const address *to, const peer_self *self, uint16_t kind, const buf *message, double seconds,
                  buf *more, err *e);

/* Of whoever was asked, as lease_answer_write. */
int answer_send(peer *to, uint16_t kind, uint64_t channel, const err *why, span more, err *e);
