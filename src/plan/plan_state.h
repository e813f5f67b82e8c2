/* plan_state.h - inside the plan: what its files share. */
#pragma once
#include "comm/coll_list.h"
#include "comm/link_part.h"
#include "comm/link_threads.h"
#include "plan/cut.h"
#include "plan/devices.h"
#include "plan/plan.h"
#include "plan/rank_weights.h"
#include "plan/reduction.h"

#include <pthread.h>

/* A place for a step on a device: where a group has several ranks, and several steps may be under way, each rank has
 * two, so that its device computes one step while rows of the other pass between ranks (turns.h). */
typedef struct rank_lane {
    struct plan_rank *of;
    segment seg;      /* as that of the rank, with an arena of its own */
    uint64_t next;    /* step; those before it are done, failed ones too; under the driver's lock */
    uint32_t reached; /* stretches of it that are over; under the driver's lock */
    pthread_t thread;
    bool has_thread;
    clockid_t clock;   /* of its processor time */
    int computes;      /* __atomic: it is in a stretch */
    uint64_t computed; /* __atomic: stretches so far */
    link_part part;    /* of the rank's end, the ranks of the group */
    coll side;         /* its side of the group's collectives */
    void *coll_memory; /* coll_bytes of the rank, as below */
    float *rows;       /* rows_bytes: whole rows on their way: of COLL_OWNER, COLL_REDUCE */
    float *plain; /* plain_bytes: rows of a crossing before they are coded, or decoded; NULL: they pass as floats */
} rank_lane;

/* A device, which has some columns of the layers of its group. */
typedef struct plan_rank {
    segment seg;           /* compiled: that of the first lane */
    int group, index;      /* which of the group's ranks it is */
    int number;            /* of the device notation, -1 none */
    rank_weights *weights; /* NULL: it is elsewhere */
    char node[DEVICE_NODE], name[DEVICE_NAME];
    cut_part *sends; /* [n_cross] what it has of activations that cross */
    bool *receives;  /* [n_cross] whether it reads them, written by a group before; or takes them as results */
    double busy;     /* seconds that it has computed; under the driver's lock */
    double late;     /* pace_keep; of whoever has the turn */
    struct plan *of;
    link_end *end[PLAN_LANES];  /* to all ranks of the plan, where some are in other processes; else NULL */
    rank_lane lane[PLAN_LANES]; /* [n_lane] step k is in lane[k % n_lane] */
    int n_lane;
    uint64_t coll_bytes, rows_bytes, plain_bytes; /* of a lane */
    uint32_t *after;                              /* [seg.n_stretch] of several lanes: turns.h */
    bool taken;                                   /* a lane has the turn; under the driver's lock */
    pthread_cond_t turn;                          /* `taken` or a lane's progress has changed */
} plan_rank;

/* Devices that do the same layers together. */
typedef struct plan_group {
    int layer0, layer1;    /* [layer0, layer1) */
    uint32_t op0, op1;     /* of the whole program */
    int rank0, ranks;      /* in plan.ranks */
    cut_shape shape;       /* of the cut */
    double *share;         /* [ranks] in plan.shares */
    double *experts;       /* [ranks] in plan.expert_shares; NULL: as `share` */
    int shows;             /* the rank that shows activations to taps */
    cut *by_columns;       /* NULL: one rank, which has all */
    const cut_coll *colls; /* [n_coll] */
    uint32_t n_coll;
    link_group *link[PLAN_LANES]; /* NULL: one rank, or some are in other processes */
    joined_group *joined;         /* its devices do steps together (joined.h); NULL: each by itself */
    const join_ways *ways;
    join_coll *handed; /* [n_coll] what they read */
    bool is_end;       /* it has what is before or after the layers: tables, head */
} plan_group;

/* A step under way, and where its rows are kept between devices and for the caller. */
typedef struct flight {
    const step *st;
    int rc; /* of the first segment that failed, and its group; under the driver's lock, as is `why` */
    int failed_in;
    row_fault
        *faults; /* of each sequence (row_faults.h); under the driver's lock until the step is over, as is `faulty` */
    bool faulty; /* some are not ROW_GOOD */
    bool apart;  /* ranks of a joined group do it one by one; under the lock */
    int remote;  /* ranks in other processes that have not finished it; as rc */
    err why;
    float **passed; /* [n_cross] rows of an activation that crosses: of each rank its columns one after another, coded,
                       from max_rows * (its first column) on; NULL: it is a result, from one rank */
    parcel **parcels;           /* [n_cross][n] of the ranks that write them; NULL: none (parcels.h) */
    float *result[ENTRY_COUNT]; /* rows of HEAD, POOL, SCORES */
    best_logit *best;           /* what the step wants of rows of HEAD in place of these, by rank (results.h) */
    void *sent[ENTRY_COUNT];    /* on a node: the message with its part of a result; NULL: it sends none */
} flight;

/* An activation that one group writes and others read, or the caller. */
typedef struct crossing {
    ref t;
    int from;            /* group */
    int entry;           /* whose result it is; -1: none */
    bool read_by_device; /* else only a result */
    bool divided;        /* several ranks have columns of it */
} crossing;

/* A program on its devices: what was asked for, the cut, and the steps that are under way; rooms of one thing. */
struct plan {
    const program *p;
    plan_options asked;
    int max_rows[AXIS_COUNT];
    reduction reduction;
    wire_type wire; /* of what passes between groups */
    cache_options cache;
    plan_group *groups;       /* [n_group] */
    plan_rank *ranks;         /* [n] group by group */
    double *shares;           /* [n] */
    double *expert_shares;    /* [n] */
    int n_group, n, n_remote; /* n_remote: of the ranks, in other processes */
    int self;                 /* rank that this process has; -1: it leads, and has those without a node */
    int results_to;           /* the leader's rank that takes results of nodes: the last, without a device; -1: none */
    const plan_remote *remote;
    const backend *first; /* the preferred one */
    const wire_ops *codecs;
    crossing *cross;
    uint32_t n_cross;
    flight *flights;          /* [in_flight] step k is in flights[k % in_flight] */
    int in_flight, lanes;     /* lanes: of a rank of several in a group; others have one */
    uint64_t sent, collected; /* steps; `sent` under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, borrows; /* borrows: weights of another plan */
    err lost;               /* why steps cannot go on; code OK: they can */
    err broken;             /* a device of this process has failed for good; code OK: none has */
};

static inline bool is_here(const plan *l, const plan_rank *r)
{
    return l->self < 0 ? !r->node[0] : r == &l->ranks[l->self];
}

/* Bytes of rows that pass between groups; those of one rank's columns. A codec takes no more than floats do. */
static inline uint64_t passed_bytes(const plan *l, int64_t cols, int64_t rows)
{
    return (uint64_t)wire_bytes(l->wire, l->reduction.group, cols) * (uint64_t)rows;
}

static inline plan_group *group_of(const plan *l, const plan_rank *r) { return &l->groups[r->group]; }

static inline const rank_lane *lane_of(const plan_rank *r, uint64_t number)
{
    return &r->lane[number % (uint64_t)r->n_lane];
}

/* plan.c: the first state of a rank whose pages lie in memory of the host, which the device reads; adds the bytes that
 * one page of each group takes of its own memory, and there. */
uint32_t rank_host_from(const plan_rank *r);
void add_page_bytes(const plan_rank *r, dtype k_type, dtype v_type, uint64_t own[GROUP_MAX], uint64_t host[GROUP_MAX]);
/* Bytes that a rank takes in the memory of its weight set for activations of all lanes, and for kernels and steps. */
uint64_t rank_step_bytes(const plan_rank *r, const weight_set *w);

/* layer_cut.c: op0, op1 of each group. */
int divide_layers(plan *l, err *e);

/* joined.c: whether a group's devices may be joined, as far as that is known before they are open. */
bool group_may_join(const plan *l, const plan_group *g);

/* crossing.c: finds what crosses; what each rank gives and takes; segment.in and segment.out. */
int group_at(const plan *l, uint32_t op_index); /* the group that an op belongs to */
int find_crossings(plan *l, err *e);
int list_parts(plan *l, err *e);
int list_edges(const plan *l, plan_rank *r, err *e);

/* remote.c: the most that ranks elsewhere have sent to rank `to` before it takes it. */
uint64_t bytes_to_rank(const plan *l, int to);

/* Whether each device has a thread: several may work at once. */
static inline bool drive_has_threads(const plan *l) { return l->in_flight > 1 || l->n > l->n_group || l->n_remote; }
uint64_t drive_bytes(const plan *l); /* of memory for steps in flight */
/* Takes memory for the steps in flight, and starts the threads. */
int drive_open(plan *l, err *e);
/* Ends the threads, when the steps sent are over. Also after drive_open failed, or was not called. */
void drive_close(plan *l);
