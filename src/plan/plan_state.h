/* plan_state.h - inside the plan: what its files share. */
#pragma once
#include "plan/plan.h"

#include <pthread.h>

typedef struct stage {
    segment seg;
    int layer0, layer1; /* [layer0, layer1) */
    int number;         /* of the device notation, -1 none */
    uint64_t done;      /* steps that it has finished, failed ones too; under the driver's lock */
    pthread_t thread;
    bool has_thread;
    struct plan *of;
} stage;

/* A step under way, and where its rows are kept between devices and for the caller. */
typedef struct flight {
    const step *st;
    int rc; /* of the first segment that failed */
    err why;
    float **passed;             /* [n_crossing] rows of an activation that crosses devices */
    float *result[ENTRY_COUNT]; /* rows of HEAD, POOL, SCORES */
    best_logit *best;           /* [rows of HEAD] where the step wants only these */
} flight;

/* An activation that one segment writes and others read, or the caller. */
typedef struct crossing {
    ref t;
    int from;
    int entry;           /* whose result it is; -1: none */
    bool read_by_device; /* else only a result */
} crossing;

struct plan {
    const program *p;
    int max_rows[AXIS_COUNT];
    bool act_f32;
    cache_options cache;
    stage *stages;
    int n;
    crossing *cross;
    uint32_t n_cross;
    flight *flights; /* [in_flight] step k is in flights[k % in_flight] */
    int in_flight;
    uint64_t sent, collected; /* steps; `sent` under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
};

/* Adds the bytes that one page of each group takes for the states that a segment writes. */
void plan_add_pages(const program *p, dtype k_type, dtype v_type, uint64_t page[GROUP_MAX]);

/* Takes memory for the steps in flight, and starts a thread for each device where there may be several. */
int drive_open(plan *l, err *e);
/* Ends the threads, when the steps sent are over. Also after drive_open failed, or was not called. */
void drive_close(plan *l);
