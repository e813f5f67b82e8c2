/* plan.h - a program divided over devices; drive.h runs steps through it, plan_show.h tells what lies where.
 *
 * Passes: cut by layers (here), by columns (cut.h), lower (core/lower_int8.h), fuse (core/fuse.h), place
 * (core/place.h), compile (the backend). Groups of devices follow one another, each with some of the layers: they are
 * cut wherever no state is between its write and its read, and a group takes over every live activation from the group
 * that wrote it. The ranks of a group divide its matrices, heads and states among them. Logits are the same bits
 * however a program is divided, unless ranks reduce: then they depend on borders and codec, and on nothing else. */
#pragma once
#include "core/backend.h"
#include "core/link.h"
#include "plan/devices.h"
#include "plan/pace.h"
#include "plan/plan_choices.h"

#include <stdbool.h>

typedef struct plan plan;

/* What is wrong with a row that passed between devices. */
typedef enum { ROW_GOOD, ROW_NOT_FINITE, ROW_NOT_HELD } row_state; /* not finite before it was coded; only after */
typedef struct row_fault {
    uint8_t how; /* row_state */
    uint32_t op; /* of the whole program: the one whose result it is */
    int32_t row; /* of the step's rows of tokens, or of an encoder */
    int rank;    /* that found it */
} row_fault;

/* Steps that a device may have begun at once; each has ends of links of its own (remote.h). */
enum { PLAN_LANES = 2 };

/* What a memory has for pages: bytes of a page of each group there, of a slot, of a row that a slot keeps apart, and
 * what is left for all of them. */
typedef struct plan_room {
    uint64_t page[GROUP_MAX], slot, slot_row, left;
    uint64_t taken;  /* of what is free now, by activations and steps: no part of `left`; of devices here */
    bool of_process; /* other things of the process take memory there too: pages should leave half of it */
} plan_room;

/* The ranks that other processes have, as the process that leads reaches them: by src/net. Every process makes the same
 * plan, of the same program, list of devices and options, and opens only its own ranks. */
typedef struct plan_remote {
    void *self;
    bool sees_taps; /* taps of steps reach them */
    /* The ranks with plan_node are opened there, as far as plan_open goes here. */
    int (*open)(void *self, plan *l, err *e);
    /* As plan_memory, of one of them, but for of_process. */
    void (*memory)(void *self, int rank, dtype k_type, dtype v_type, plan_room *out);
    /* They take steps from now on. ends[r][lane], of ranks here: its end of the link between all ranks of the plan. */
    int (*ready)(void *self, const cache_options *cache, link_end *(*ends)[PLAN_LANES], err *e);
    /* Step `number` is theirs too, until each has told plan_remote_done. Does not wait. */
    void (*send)(void *self, uint64_t number, const step *st);
    void (*close)(void *self); /* also after `open` or `ready` failed */
    /* How many best logits of a row all of them can tell. NULL: BEST_MAX. */
    int32_t (*best_most)(void *self);
    /* Whether slots of all of them can keep rows apart. NULL: they can. */
    bool (*keeps_rows)(void *self);
    /* How fast the node of a rank pretends to be, "2,500" (pace.h); NULL: it does not. The member may be NULL. */
    const char *(*pretended_speed)(void *self, int rank);
} plan_remote;

typedef struct plan_options {
    const device_list *devices;  /* read while the plan opens */
    const backend_use *backends; /* the first is the preferred one */
    int max_rows[AXIS_COUNT];    /* of a step */
    int rank;                    /* r + 1: rank r is here; 0: this process leads, and has those without a node */
    const char *lends;           /* with `rank`: which devices this process lends (devices.h); NULL: all */
    const plan_remote *remote;   /* NULL: no device may have a node, or this process has one rank */
    plan_choices choices;        /* how ranks join, what passes between groups, … */
    int kv_host;                 /* cache_options.host of devices here */
    pace pretended_speed;        /* how fast devices here pretend to be */
    /* NULL, or a plan of the same program and devices, whose weights devices here use too; open as long as plan_open
     * takes, then either may be closed first. Each has pages, activations and steps of its own, in threads of its own;
     * on one device they take turns. ERR_USAGE: it has not all that is needed. */
    const plan *shares;
    bool only_cut; /* programs are made, but no device is opened: plan_fit */
    /* NULL, or called with the program of each device here before its weights are read; not of shared ones. */
    int (*before_weights)(void *ctx, const program *p, err *e);
    /* NULL, or called before memory of the devices here is filled: weights of their own that they do not use in mapped
     * files, and activations. */
    int (*may_take)(void *ctx, uint64_t bytes, err *e);
    void *ctx; /* theirs */
} plan_options;

/* What suits all devices of the list: rows of a prompt and sequences in a step (core/backend.h). free_bytes: the least
 * that one of them has free; 0: some are on nodes, or do not say. */
typedef struct plan_preference {
    int chunk, chunk_most, sequences, devices;
    double chunk_rate;
    uint64_t free_bytes;
} plan_preference;
plan_preference plan_prefers(const device_list *devices, const backend_use *backends);

/* Cuts, lowers each segment for its device, opens devices, places activations and weights. The program and its
 * checkpoint must outlive the plan. */
int plan_open(plan **out, const program *p, const plan_options *o, err *e);
/* Whether some matrix multiplies int8 activations. */
bool plan_takes_int8(const plan *l);
/* Bytes that the devices here take beside mapped files: weights, unless another plan has opened them, pages,
 * activations, rows of steps under way and on their way here. Before plan_ready: without pages. */
uint64_t plan_taken_bytes(const plan *l);
/* Of them, weights; also of another plan, where it shares them. */
uint64_t plan_weights_taken(const plan *l);
/* Makes pages and compiles; then steps can be sent. ends: of the ranks here, where others are elsewhere and `remote`
 * gives none: as plan_remote.ready. */
int plan_ready(plan *l, const cache_options *cache, link_end *(*ends)[PLAN_LANES], err *e);
void plan_close(plan *l); /* NULL ok; steps under way end first */

int plan_devices(const plan *l);            /* without the rank that only takes results */
int plan_groups(const plan *l);             /* that have something of the program */
int plan_group_of(const plan *l, int i);    /* of device i */
double plan_share_of(const plan *l, int i); /* as asked for: its part of what its group has */
int plan_layers_of(const plan *l, int i);   /* of its group */
const char *plan_wire(const plan *l);       /* the codec of what passes between groups; NULL: floats, or nothing does */
const char *plan_reduces(const plan *l);    /* the codec in which ranks add up their parts; NULL: they do not */
int plan_segments(const plan *l);           /* devices: all ranks of the first group, then those of the next */
const segment *plan_segment(const plan *l, int i);
/* Whether a process that has some of the ranks is lost, so that no step can go on. */
bool plan_is_lost(plan *l, err *why); /* why: NULL ok */
/* Whether a device of this process has failed, so that it computes nothing any more; the line names it. */
bool plan_is_broken(plan *l, err *why); /* why: NULL ok */
/* Seconds that device i has computed in the steps collected so far, exchanging rows not counted. */
double plan_busy(plan *l, int i);
/* How fast the node of device i pretends to be (plan_remote.pretended_speed); NULL: it does not. */
const char *plan_pretended_speed(const plan *l, int i);
/* Whether taps of steps reach all devices. */
int32_t plan_best_most(const plan *l); /* how many best logits of a row a step may want */
bool plan_keeps_rows(const plan *l);   /* whether slots may keep rows apart */
bool plan_sees_taps(const plan *l);
const program *plan_program(const plan *l);
/* What it was opened with; devices and backends are the caller's, and NULL once plan_open has returned. */
const plan_options *plan_asked(const plan *l);

/* ---- for processes that share a plan */
/* The node that has device i, "a:7071"; NULL: it is here. */
const char *plan_node(const plan *l, int i);
/* Ranks on the same node as the one here, with it. */
int plan_sharers(const plan *l);
const char *plan_own_node(const plan *l); /* how the process that leads calls the node of the rank here; "": it leads */
