/* pooled_job.h - a request for vectors or scores of texts on its way through the engine: one pooled query per input,
 * some of them in the engine at a time, one reply when all have ended.
 *
 * Built on a listener's thread, then written by the engine thread; it lives until the connection and the engine have
 * dropped its stream. */
#pragma once
#include "base/buf.h"
#include "serve/exchange.h"
#include "serve/server.h"
#include "text/tokenizer.h"

typedef struct pooled_job pooled_job;

typedef struct pooled_input {
    pooled_job *owner;
    token_list ids, types; /* types empty: all 0 */
    uint64_t query_id;
    bool running; /* under the job's lock */
    bool cut;     /* it was longer than the model takes */
} pooled_input;

struct pooled_job {
    server *srv;
    uint64_t owner; /* of its queries */
    stream *out;
    pooled_input *in;
    size_t n;
    bool scores;                                 /* wanted: classification scores, else vectors */
    int32_t width;                               /* of a result */
    float *results;                              /* [n][width] */
    bool (*write)(buf *to, const pooled_job *j); /* the body of the reply */
    void *own;                                   /* data for `write`; freed with mem_free after `clear` */
    void (*clear)(void *own);                    /* NULL ok */

    pthread_mutex_t lock; /* of the rest, and pooled_input.running */
    size_t next, running; /* inputs that were added; of those, that have not ended */
    bool gone, ended;
    err failed;
};

/* A job of n empty inputs, to be filled. pooled_job_drop it when it does not start. */
int pooled_job_new(pooled_job **out, server *s, size_t n, bool scores, err *e);
void pooled_job_drop(pooled_job *j);
/* Starts the queries; the job is the stream's from here. x->later or an error reply is set. */
void pooled_job_start(pooled_job *j, exchange *x);

/* "usage":{...} with the members of the OpenAI API; then "truncated":[...], the numbers of the inputs that were cut,
 * where there are such. */
bool pooled_usage_write(buf *to, const pooled_job *j);
/* The reply to an error of an input; `at`: its field. */
void pooled_reply_err(exchange *x, const char *at, const err *e);
