/* trial_side.h - one rank's part in what trial_msg.h says, on a node or where the leader is. */
#pragma once
#include "net/trial_msg.h"
#include "net/rank_links.h"
#include "plan/devices.h"

/* Who measures. */
typedef struct trial_layout {
    device_list devices; /* of one group: a rank each */
    uint64_t bytes;      /* of a message between two, at most */
} trial_layout;

/* A rank; {.wire, .w, .rank} is a valid one. */
typedef struct trial_side {
    const wire_ops *wire; /* how it codes */
    const rank_links *w;
    int rank;
    void *memory; /* memory_bytes: what others read; kept where a test failed, until they have ended */
    uint64_t memory_bytes;
} trial_side;

rank_links_shape trial_shape(const trial_layout *l); /* which must outlive it */
/* The largest message of a test, at most. */
uint64_t trial_message_bytes(const coll_test *t, int ranks);
/* What a test takes of this process's memory. */
uint64_t trial_side_bytes(const trial_side *s, const coll_test *t);
/* Takes part; all ranks have to. After an error no further test is possible. */
int trial_side_run(trial_side *s, const coll_test *t, coll_score *to, err *e);
void trial_side_close(trial_side *s); /* after the links were closed */
