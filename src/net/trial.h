/* trial.h - collectives between ranks, some of which are on nodes, measured: the leader's side of trial_msg.h. Ranks of
 * this process have a thread each; without nodes memory is the link. */
#pragma once
#include "net/trial_side.h"

typedef struct trial trial;

typedef struct trial_options {
    const char *devices;               /* one group, as --devices has it */
    const trial_layout *layout;        /* of it; bytes: of the largest message of all tests */
    const wire_ops *wire[DEVICES_MAX]; /* of ranks here: how they code */
    const char *key_file;              /* NULL: no rank has a node */
    double timeout;                    /* seconds of silence after which a node counts as dead; 0: 3 */
} trial_options;

/* Connects nodes; *o must outlive it. */
int trial_open(trial **out, const trial_options *o, err *e);
/* After an error no further test is possible. */
int trial_run(trial *t, const coll_test *test, coll_score *to, err *e);
void trial_close(trial *t); /* NULL ok */
