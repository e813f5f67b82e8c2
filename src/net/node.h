/* node.h - a process that lends its devices to leaders: inferflow node. */
#pragma once
#include "core/backend.h"
#include "net/hello.h"
#include "net/peer.h"
#include "net/tcp.h"

#include <stdint.h>

typedef struct node node;

typedef struct node_options {
    const char *key_file;
    address at; /* port 0 picks one */
    const backend_use *backends;
    const char *const *models; /* [n_model] paths of copies; none: the built-in model */
    int n_model;
    const char *devices;  /* that it lends, "cpu:1,cpu" (plan/devices.h); NULL: all backends, with any number */
    uint64_t memory;      /* bytes that it lends, in all; 0: what the machine has */
    const char *cache;    /* folder for weights that leaders send; NULL: in memory, and only without copies */
    uint64_t cache_bytes; /* that it may take; 0: half of its disk */
    bool verify;          /* its copies are compared before it listens (net/keeper.h) */
    double timeout;       /* seconds of silence after which a leader counts as dead, if it allows no more; 0: 3 */
    const char *pretended_speed; /* GB/s,GOP/s of the machine that it pretends to be (plan/pace.h); NULL: it does not */
} node_options;

/* Listens; the strings and lists of o must outlive it. */
int node_open(node **out, const node_options *o, err *e);
const address *node_address(const node *n);
const hello *node_says(const node *n); /* of itself: its number, what it lends */
int node_leases(node *n);              /* that have not ended */
bool node_works(node *n);              /* a step is under way, or a leader waits for an answer */
/* What it does and has done. From any thread. */
typedef struct node_report {
    int leases, connections; /* of plans; of processes that are in */
    int parts;               /* of models: leases may share one */
    int stalled;             /* leases with something to do here that have not moved for PROGRESS_BUSY seconds */
    uint64_t steps_under_way;
    uint64_t leases_so_far, leases_refused, steps, trials;
    double compute_seconds; /* of steps */
    peer_bytes bytes;
    uint64_t memory_lent, memory_left; /* to leases; what another one could have */
    uint64_t cache_bytes;              /* on its disk */
    uint64_t refused;                  /* connections, at the door */
    uint64_t copies_changed;           /* files that a disk changed */
    bool drains;
} node_report;
void node_look(node *n, node_report *out);
/* Ends what leases have ended, on threads of their own: to be called again and again, by one thread. */
void node_tidy(node *n);
/* No new leases from now on; leaders are told, so that they take spares between two steps. */
void node_drain(node *n);
void node_close(node *n); /* ends all leases; NULL ok */
