/* lease_state.h - what a lease is made of, for lease.c and the handlers of its messages. */
#pragma once
#include "net/fetch.h"
#include "net/lease.h"
#include "net/part_share.h"
#include "net/step_code.h"

/* One rank of a plan: what was asked, its part of the model, the steps under way, and a thread that collects them.
 * What two threads use is under the lock of `base`. */
struct lease {
    hosted_rank base; /* first */
    lease_ask ask;    /* without its texts */
    err refused;      /* a choice or a device of it that this build does not have */
    device_list devices;
    char *weights, *spec;
    buf flat; /* protocol 2: the list of the leader's tensors */
    fetch *fetches;
    part *part; /* what it has of the model, perhaps with others; NULL: not open */
    plan *plan; /* with its weights */
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
/* What it takes beside its part, without pages, or with them after plan_ready. */
uint64_t lease_taken_bytes(const lease *l);

/* Ends it, as files of its part are not what they were: nobody else gets that part. */
void lease_lose_part(lease *l, const err *why);

/* ---- its memory: on_memory.c */

int lease_tell_memory(const lease *l, dtype k_type, dtype v_type, buf *out, err *e);
/* Whether so many pages and slots fit. */
int lease_check_pages(const lease *l, const cache_options *cache, err *e);

/* ---- its steps: on_step.c */

/* Starts the thread that collects them. */
int lease_begin_steps(lease *l, err *e);
