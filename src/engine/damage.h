/* damage.h - files of weights that change while they are used: they become shorter or longer, are written to, cannot
 * be read.
 *
 * Weights lie in mapped files. Every step asks how these are before its results leave (damage_check). When one is not
 * as it was all queries end with an error that names it, what was computed is dropped, and new queries are refused
 * (engine_unavailable). From then on the engine looks now and then whether the files are whole again: it maps them anew
 * and hashes them; where all tensors hold what they held, it goes on. That takes digests from before, which
 * engine_fingerprint makes; without them the failure is for good.
 *
 * A file whose times alone were set is hashed beside the steps, which go on. While an engine that was asked to
 * (engine_watch_files) has nothing to do its files are read again from the disk, which may change what nobody wrote
 * to. */
#pragma once
#include "base/err.h"
#include "io/contents.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct engine engine;

typedef struct damage {
    bool active;   /* written under the engine's lock */
    err why;       /* as `is` */
    contents held; /* digests of what was loaded; tensor NULL: not known */
    double next;   /* clock_now of the next attempt */
    pthread_t thread;
    bool hashes; /* the thread is there */
    bool looks;  /* and reads the disk, while there is nothing else to do */
    atomic_bool stop, done;
    double began, took; /* of the last hashing */
    err found;          /* by it */
    bool touched;       /* to be hashed when the thread is free */
    bool decayed;       /* the disk had other contents: it is asked before files count as whole again */
    bool watches;
    double idle_at, look_at; /* clock_now since when there is nothing to do, and of the next look at the disk */
} damage;

/* OK, or ERR_UNAVAILABLE with the file's name. On the engine thread. */
int damage_check(engine *g, err *e);
/* The check has failed: ends all queries, drops all pages. On the engine thread. */
void damage_begin(engine *g, const err *why);
/* While it is: ends queries that came meanwhile, tries to mend. On the engine thread; it does not wait. */
void damage_go_on(engine *g);
void damage_close(engine *g);
