/* lease_state.h - what a lease is made of, for lease.c, lease_model.c and the handlers of its messages. */
#pragma once
#include "models/model.h"
#include "net/catalogue.h"
#include "net/fetch.h"
#include "net/lease.h"
#include "net/step_code.h"

/* One rank of a plan: what was asked, the model and its plan, the steps under way, and a thread that collects them.
 * What two threads use is under the lock of `base`. */
struct lease {
    hosted_rank base; /* first */
    lease_ask ask;    /* without its texts */
    err refused;      /* a choice or a device of it that this build does not have */
    device_list devices;
    char *weights, *text; /* text: the spec */
    buf listed;           /* the catalogue, as it came */
    catalogue told;
    model *m;
    store *parts; /* of the leader's checkpoint, where the model is made of it; else NULL */
    fetch *fetches;
    int64_t hashed_at; /* contents_clock, when the oldest digest of what it reads was made */
    bool differs;      /* the node's own copy has other contents */
    uint64_t fetched;  /* of what it takes of the node's memory, weights from the leader */
    plan *l;
    step_reader *reader;
    uint64_t step_bytes; /* of a step's message at most */
    uint8_t *step_room;
    pthread_t collector;
    bool collects; /* that runs */
    bool opened, ready;
    double ready_at;     /* clock_now */
    uint64_t sent, done; /* steps: to the plan; and collected */
};

hosted_opener lease_open;
bool lease_is_ready(lease *l);
/* What it takes without pages, or with them after plan_ready. */
uint64_t lease_taken_bytes(const lease *l);

/* ---- its memory: on_memory.c */

int lease_tell_memory(const lease *l, dtype k_type, dtype v_type, buf *out, err *e);
/* Whether so many pages and slots fit. */
int lease_check_pages(const lease *l, const cache_options *cache, err *e);

/* ---- its steps: on_step.c */

/* Starts the thread that collects them. */
int lease_begin_steps(lease *l, err *e);

/* ---- the model that it computes with: lease_model.c */

/* The list of the leader's tensors, which this node may have already. */
int lease_read_list(lease *l, err *e);
/* The part of the plan, with the node's own copy if it has one, else with what the leader sends. */
int lease_place_model(lease *l, const plan_options *o, err *e);
/* Whether the files that the step has read are as they were when they were compared with the leader's. One that pieces
 * of the leader are written to may only not be torn. */
int lease_check_weights(const lease *l, err *e);
bool lease_reads_file(const lease *l, const file_id *id);
