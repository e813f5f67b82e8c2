/* progress.h - what a process says of its work with each sign of life, and when another one has stood still too long.
 *
 * A thread that reads answers PINGs whatever the threads that compute do. So a PONG tells how far these are: a number
 * that moves while they compute, load, hash or receive, and not while they stand still or wait. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    uint64_t work;  /* moves with whatever is done; only whether it moved counts */
    uint64_t alive; /* moves as long as threads that wait for rows of others can run */
    int32_t waits;  /* for rows of this rank; -1: of none */
    bool busy;      /* something was asked of it that is not answered */
} progress;

enum { PROGRESS_BYTES = 21, PROGRESS_WAITS_NOT = -1 };

/* Seconds without progress after which who was asked counts as lost: that did not begin; at work; that measures, where
 * one message may take long. */
#define PROGRESS_IDLE  5.0
#define PROGRESS_BUSY  15.0
#define PROGRESS_TRIAL 120.0

void progress_write(uint8_t to[PROGRESS_BYTES], const progress *p);
/* ERR_FORMAT: malformed. */
int progress_read(progress *p, span payload, err *e);

/* What is known of another process's progress. One thread at a time. */
typedef struct progress_watch {
    progress last;
    double at, alive_at; /* clock_now when `work` and `alive` moved last, or began to count */
    double looked;       /* of the last progress_rest */
} progress_watch;

/* From now on it should move. */
void progress_begin(progress_watch *w);
/* It says this. */
void progress_hear(progress_watch *w, const progress *said);
/* Seconds for which it has not moved. A time in which this process itself stood still does not count. */
double progress_rest(progress_watch *w);
