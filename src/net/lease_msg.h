/* lease_msg.h - what a leader and a node say about a lease: one rank of a plan, on a device of the node.
 *
 *     leader                                     node
 *     LEASE  spec, list of devices, rank …  ->   opens the model and its part of the plan, begins to dial others: JOIN
 *                                           <-   ANSWER when its contents were hashed, and of MEMORY; or why not
 *     MEMORY types of the cache             ->   (where the node has several ranks, or is of protocol 3)
 *                                           <-   ANSWER bytes of a page of each group, of a slot, bytes left
 *     READY  pages, slots, rows apart       ->   makes pages, waits for the connections between ranks
 *                                           <-   ANSWER
 *     STEP   (net/step_code.h)              ->   and data between ranks (net/mailboxes.h): on these connections with
 *                                           <-   DONE    those of the leader, else on some of their own
 *
 * The lease ends with the control connection. */
#pragma once
#include "base/buf.h"
#include "core/backend.h"
#include "core/link.h"
#include "plan/plan.h"

enum { LEASE_TOKEN = 16, LEASE_TEXT_MAX = 1 << 22 };

/* What a node has to know of the plan. Texts are the reader's or the payload's memory. */
typedef struct lease_ask {
    uint8_t identity[SHA256_BYTES]; /* of the program (program_identity), which the node's has to equal */
    int32_t rank, ranks, ctx, sequences;
    int32_t max_rows[AXIS_COUNT];
    plan_choices choices;              /* in_flight: what they come to */
    span devices, weights, model_spec; /* as the leader has them; or empty */
    span flat;                         /* protocol 2: the list of the leader's tensors, in its form (net/catalogue.h) */
    uint8_t list[SHA256_BYTES]; /* digest of the list, and its bytes: who has not got it asks for it (GET_LIST) */
    uint32_t list_bytes;
    uint8_t token[LINK_RANKS_MAX][LEASE_TOKEN]; /* [ranks] that a connection between it and this rank has to show */
    dtype k_type, v_type;                       /* protocol 4: of the cache; the answer has what MEMORY answers */
    /* Protocol 4: ranks that this one hands something, or takes it from, and what the leader calls their nodes and this
     * one's ("": the leader's own). */
    bool meets[LINK_RANKS_MAX];
    span node[LINK_RANKS_MAX];
} lease_ask;

typedef struct lease_memory {
    uint64_t page[GROUP_MAX], slot, left;
} lease_memory;

typedef struct lease_join {
    int32_t from; /* rank of who dials */
    uint8_t token[LEASE_TOKEN];
} lease_join;

/* Readers: ERR_FORMAT when malformed or out of range. Writers: false when memory is short. */
bool lease_ask_write(buf *out, const lease_ask *a, int protocol);
/* ERR_USAGE: well formed, but a choice is none of this build. */
int lease_ask_read(lease_ask *a, span payload, int protocol, err *e);
bool lease_types_write(buf *out, dtype k_type, dtype v_type);
int lease_types_read(dtype *k_type, dtype *v_type, span payload, err *e);
bool lease_memory_write(buf *out, const lease_memory *m);
int lease_memory_read(lease_memory *m, span payload, err *e);
bool lease_cache_write(buf *out, const cache_options *c);
int lease_cache_read(cache_options *c, span payload, err *e);
bool lease_join_write(buf *out, const lease_join *j);
int lease_join_read(lease_join *j, span payload, err *e);

/* What follows in a good answer to a LEASE, from protocol 3 on: when the contents that the rank reads were hashed last
 * (contents_clock). 0: it does not say. *more: what comes behind it, from protocol 4 on: lease_memory. */
bool lease_hashed_write(buf *out, int64_t at);
int64_t lease_hashed_read(span *more);

/* What follows in a good DONE: the seconds that its rank has computed. 0: malformed. */
bool lease_seconds_write(buf *out, double seconds);
double lease_seconds_read(span more);
/* And behind them, by sequence [n], rows at fault there (plan_faults; NULL: none); the i-th of them, false after the
 * last. */
bool lease_faults_write(buf *out, const row_fault *f, int32_t n);
bool lease_faults_read(span more, size_t i, int32_t *k, row_fault *out);

/* The code and, if it is not OK, the message and, behind a NUL, whom it names; `more` follows a good answer. */
bool lease_answer_write(buf *out, uint32_t protocol, const err *why, span more);
/* The code; *more: what follows. Texts of others are shown, so they have to be printable. */
int lease_answer_read(span *more, span payload, err *e);
