/* lease.h - on a node: one rank of a leader's plan, from LEASE (net/lease_msg.h) to the end of its connection; or one
 * of a trial, from TRIAL (net/trial_msg.h). */
#pragma once
#include "core/backend.h"
#include "net/keeper.h"
#include "net/lists.h"
#include "net/memory_quota.h"
#include "net/peer.h"
#include "net/tally.h"
#include "net/rank_links.h"
#include "plan/pace.h"

typedef struct lease lease;

/* What the node lends, and where it finds models. */
typedef struct lease_host {
    const backend_use *backends;
    const char *devices;       /* which it lends (plan/devices.h); NULL: all */
    const char *const *models; /* [n_model] paths of copies; none: the built-in model */
    int n_model;
    const char *cache;    /* folder for weights from leaders; NULL: in memory, unless there are copies */
    uint64_t cache_bytes; /* that it may take; 0: half of its disk */
    const peer_self *self;
    memory_quota *memory; /* of the node */
    keeper *copies;
    lists *told;            /* of what leaders have */
    tally *done;            /* by all leases */
    pace as;                /* node --as */
    void (*met)(void *ctx); /* a lease has links now: ranks that wait to join may; from any thread */
    void *ctx;
} lease_host;

/* Made of the payload of a LEASE or TRIAL (`kind`) that came by `control`. */
int lease_open(lease **out, const lease_host *host, peer *control, uint16_t kind, span payload, err *e);
/* Starts a thread that carries it out and answers, perhaps asks first: messages may come from now on. */
int lease_begin(lease *l, err *e);
/* A message of the leader; does not wait. lease_admit as frame_sink. */
int lease_admit(lease *l, const frame_head *h, uint8_t **room, err *e);
int lease_take(lease *l, const frame_head *h, const uint8_t *payload, err *e);
/* Whether the token is that of a rank `from` of this lease's plan: then its links take the connection over, as
 * rank_links_accept. ERR_UNAVAILABLE: it has none yet. */
bool lease_knows(const lease *l, const lease_join *j);
int lease_join_way(lease *l, const lease_join *j, peer *p, err *e);
int lease_way_admit(lease *l, int from, const frame_head *h, uint8_t **room, err *e);
int lease_way_take(lease *l, int from, const frame_head *h, const uint8_t *payload, err *e);
/* How far its work is, as PONGs say it. */
void lease_progress(lease *l, progress *out);
bool lease_measures(const lease *l); /* it is one of a trial */
bool lease_works(lease *l);          /* something was asked that is not answered, a step too */
uint64_t lease_steps(lease *l);      /* under way, or waiting for their turn */
/* Adds the bytes of connections to other ranks that were dialled here, as peer_count. */
void lease_count(lease *l, peer_bytes *to);
/* Ends it where it reads this file, which has changed on the disk, or may begin to. From any thread. */
void lease_lose_file(lease *l, const file_id *id, const err *why);
/* Ends it where what it reads of the cache was found changed, by whoever shares the folder. From any thread. */
void lease_look(lease *l);
/* The leader or another rank is gone: work ends. From any thread, does not wait. */
void lease_end(lease *l, const err *why);
bool lease_is_over(const lease *l);
/* After lease_stop, a line of the log where it was ready. why: NULL: as lease_end was told. */
void lease_say_end(const lease *l, const char *why);
/* After lease_end: waits for its threads; then nothing of it uses a connection. Not from a reading thread. */
void lease_stop(lease *l);
/* When its connections were closed; NULL ok. */
void lease_close(lease *l);
