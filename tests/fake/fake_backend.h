/* fake_backend.h - a device that is nobody's hardware, for tests of the seam (core/backend.h).
 *
 * Its memory is a mapping that nobody can read while the device is not at work, and so is that of its weights, which
 * no step can write. Weights, pages and page tables lie there in orders of their own. Steps run on a thread of its own,
 * after a random delay. Whatever it is asked to do beyond its bounds aborts. It counts its calls and the bytes that
 * move, and fails where it is told to. */
#pragma once
#include "core/backend.h"

#include <stdatomic.h>

/* Calls that may fail, in the order of backend.h. */
#define FAKE_CALLS(X)                                                                                                  \
    X(weights_open)                                                                                                    \
    X(weights_read) X(open) X(compile) X(act_put) X(act_get) X(start) X(wait) X(pick) X(page_get) X(page_put)
typedef enum fake_call {
#define X(name) FAKE_##name,
    FAKE_CALLS(X)
#undef X
        FAKE_COUNT
} fake_call;

/* What all devices of a test have done, and where one of them fails. */
typedef struct fake_log {
    atomic_ullong calls[FAKE_COUNT], all; /* all: the sum */
    /* Bytes to the devices, and from them: weights, constants and tables; steps; rows; pages. */
    atomic_ullong weights, steps, puts, gets, pages;
    atomic_ullong returns;      /* to a step, after a stretch of another one */
    unsigned long long fail_at; /* call number fail_at of all, from 1, fails; 0: none */
    bool lost;                  /* and every later one on the same weights and all devices over them, too */
} fake_log;

/* weight_options.own; NULL: no delay, nothing counted */
typedef struct fake_options {
    fake_log *log;
    uint64_t memory; /* bytes for weights and all devices over them; 0: FAKE_MEMORY */
    uint32_t delay;  /* microseconds before a step at most */
    uint32_t seed;
    int lacks; /* op_kind that it has no kernel for; 0 (EMBED): it has all */
} fake_options;
enum { FAKE_MEMORY = 1 << 30 };

extern const backend fake_backend;
