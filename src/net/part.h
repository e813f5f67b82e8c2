/* part.h - on a node: a leader's model as far as one rank of a plan needs it, with its weights: of the node's own copy,
 * whose tensors are compared with the leader's list, or of pieces that the leader sends. It knows whether the files
 * that steps have read are as they were then. Several leaders may have one (part_share.h). */
#pragma once
#include "models/model.h"
#include "net/hosted_rank.h"
#include "net/lease_msg.h"

typedef struct part part;

/* What a leader asks for; read while the part opens. */
typedef struct part_ask {
    hosted_rank *by; /* for which it opens; its node, its leader */
    struct fetch *fetches;
    const lease_ask *asked;
    const char *weights, *spec; /* its texts */
    const device_list *devices;
    span flat; /* protocol 2: the list of the leader's tensors */
} part_ask;

const model *part_model(const part *x);
/* Of its rank, without pages: whose weights those of its users share (plan_options.shares). */
const plan *part_plan(const part *x);
/* What plans with its weights are opened with. */
plan_options part_plan_options(const part_ask *a);
uint64_t part_bytes(const part *x);    /* that it takes of the node's memory */
int64_t part_hashed_at(const part *x); /* contents_clock, when the oldest digest of what it reads was made */
/* Whether the files that a step has read are as they were when they were compared with the leader's. One that pieces
 * of the leader are written to may only not be torn. */
int part_check(const part *x, err *e);
/* What it reads of the cache was found changed, by whoever shares the folder. */
int part_look(const part *x, err *e);
bool part_reads_file(const part *x, const file_id *id);
