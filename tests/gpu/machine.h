/* machine.h - a launch of a kernel: its blocks, their warps, and how they take turns.
 *
 * All state is explicit, so a launch goes on for some instructions and stops anywhere; launches of several streams
 * interleave. The order of warps and blocks comes from a seed.
 *
 * A thread that sleeps (nanosleep) waits for something, and its launch's turn ends. Clocks of the device go forward by
 * instructions, and while all that runs only waits. */
#pragma once
#include "tests/gpu/gpu_memory.h"
#include "tests/gpu/ptx_program.h"

enum { BARRIER_SYNC, BARRIER_ARRIVE, BARRIER_POPC, BARRIER_AND, BARRIER_OR }; /* mode of a barrier's instruction */
enum { PARAM_BYTES = 32764, BARRIERS = 16, WARPS = 32, NEAR = 64 };

typedef struct barrier {
    int expected; /* threads; 0: all that live */
    int arrived;
    uint32_t sum, all, any; /* of bar.red */
} barrier;

typedef struct block {
    struct launch *of;
    struct block *next; /* in the list of those that have ended */
    int function;
    uint32_t id[3];
    uint64_t number;
    int n_warp, live; /* live: threads that have not ended */
    warp *warps;
    uint8_t *shared;
    uint32_t shared_bytes;
    bool lets_begin, waited; /* a thread of it has let dependent launches begin; has waited for the launch before */
    uint64_t ran;            /* instructions since it began */
    struct race_block *race;
    struct gpu_shadow *shadow; /* of shared */
    struct bulk_copies *bulk;  /* under way; NULL before the first */
    struct proxy *proxy;       /* NULL before the first wgmma */
    barrier bar[BARRIERS];
} block;

typedef struct launch {
    program *p;
    int function, device;
    uint32_t grid[3], dim[3], dynamic;
    uint8_t params[PARAM_BYTES];
    uint64_t next, count; /* blocks */
    int n_resident, window;
    block **resident;
    uint64_t idle;         /* instructions since a block has ended */
    uint64_t patience;     /* how many of them are too many */
    bool waits;            /* a thread slept in the last turn */
    bool depends, held;    /* it may begin before the launch before it has ended; that one has not */
    bool gives_way;        /* a thread waited for that, or let the next launch begin, in the last turn */
    uint64_t let_begin;    /* blocks that let dependent launches begin, or have ended */
    int fault;             /* an error of the driver's, 0 for none */
    gpu_range *near[NEAR]; /* where an instruction's last address was, by its place */
    uint64_t random;
    struct race_launch *race;
} launch;

enum { FAULT_ADDRESS = 700, FAULT_LAUNCH = 719, FAULT_MISALIGNED = 716, FAULT_INSTRUCTION = 715 };

/* Grid and block are checked by the caller. */
launch *launch_new(program *p, int function, const uint32_t grid[3], const uint32_t dim[3], uint32_t dynamic);
/* Goes on for about that many instructions of warps; true when all blocks have ended or one has failed. */
bool launch_run(launch *l, int64_t budget);
void launch_free(launch *l);
/* Whether launches that depend on this one may begin: all its blocks have let them, or have ended. */
bool launch_lets_begin(const launch *l);
/* A block lets them; true: they may now. Its threads wait for the launch before; false: it has not ended. */
bool block_let_begin(block *b);
bool block_wait_before(block *b);
/* Frees what launches of p have kept for the next ones. */
void machine_forget(program *p);
/* Instructions of warps that ran in this process; ns in which all that ran waited. */
extern uint64_t machine_warp_instructions, machine_idle;

/* A warp's instruction has failed for a lane: a line on stderr, and the launch ends. */
__attribute__((format(printf, 4, 5))) void machine_fault(warp *w, int lane, int code, const char *format, ...);

/* Threads have come to a barrier: count of them are expected, 0 for all. They wait unless arrive_only. */
void block_barrier(warp *w, uint32_t mask, int id, int count, bool arrive_only);

uint64_t machine_random(uint64_t *state);
