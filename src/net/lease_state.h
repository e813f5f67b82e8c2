/* lease_state.h - what a lease is made of, for lease.c and lease_model.c alone. */
#pragma once
#include "models/model.h"
#include "net/catalogue.h"
#include "net/fetch.h"
#include "net/lease.h"
#include "net/meet.h"
#include "net/step_code.h"
#include "net/trial_side.h"

#include <pthread.h>
#include <time.h>

/* One rank from the message to the end of its connection: what was asked, the model and its plan, links to other ranks,
 * the steps under way, and two threads with what they tell each other. A trial has the first and the last of these. */
struct lease {
    const lease_host *host;
    peer *control;
    lease_ask ask; /* without its texts */
    err refused;   /* a choice or a device of it that this build does not have */
    device_list devices;
    char *weights, *text; /* text: the spec */
    buf listed;           /* the catalogue, as it came */
    catalogue told;
    model *m;
    store *parts; /* of the leader's checkpoint, where the model is made of it; else NULL */
    fetch *fetches;
    int64_t hashed_at;       /* contents_clock, when the oldest digest of what it reads was made */
    bool differs;            /* the node's own copy has other contents */
    uint64_t quota, fetched; /* bytes that it takes of the node's memory, of them weights from the leader */
    plan *l;
    rank_links *w;
    rank_links_others others;
    meeting *meets;
    trial_layout *trial; /* NULL: a plan; else ranks that only measure collectives, and this one's side */
    trial_side side;
    bool joined;
    step_reader *reader;
    uint64_t step_bytes; /* of a step's message at most */
    uint8_t *step_room;
    pthread_t worker, collector;
    bool works, collects;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    buf pending;           /* of a message for the worker */
    uint16_t pending_kind; /* 0: none */
    bool opened, ready, over;
    double ready_at;       /* clock_now */
    uint64_t sent, done;   /* steps: to the plan; and collected */
    bool carries;          /* out a message, on the worker */
    clockid_t worker_time; /* the processor time of that */
    err why;               /* it is over */
};

/* ---- the model that it computes with: lease_model.c */

/* The list of the leader's tensors, which this node may have already. */
int lease_read_list(lease *l, err *e);
/* The part of the plan, with the node's own copy if it has one, else with what the leader sends. */
int lease_place_model(lease *l, const plan_options *o, err *e);
/* Whether the files that the step has read are as they were when they were compared with the leader's. One that pieces
 * of the leader are written to may only not be torn. */
int lease_check_weights(const lease *l, err *e);
bool lease_reads_file(const lease *l, const file_id *id);
