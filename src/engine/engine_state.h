/* engine_state.h - inside the engine: what its files share.
 *
 * engine.c opens and closes, queue.c is what other threads call, schedule.c decides who takes part in a step, infer.c
 * runs steps and delivers tokens. The parts that are structs of their own (draft, damage, draws, steps) work on the
 * engine, so their files and this one include each other. */
#pragma once
#include "cache/prefix_share.h"
#include "cache/text_slots.h"
#include "engine/batch.h"
#include "engine/damage.h"
#include "engine/draft.h"
#include "engine/draws.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "engine/spares.h"
#include "engine/step_time.h"
#include "engine/steps.h"
#include "models/model.h"
#include "net/own_list.h"
#include "plan/plan.h"

#include <pthread.h>

enum {
    QUEUE_MAX = 1024,    /* queries that wait, unless engine_options says another number */
    SCORE_ROWS = 256,    /* rows of a step with results, at least */
    SHARE_COUNTS = 1024, /* owners and requests are counted by number modulo this; where two meet, it is less fair */
};

/* Sequences that run, of each owner and of each request. */
typedef struct running_shares {
    uint16_t owner[SHARE_COUNTS], request[SHARE_COUNTS];
} running_shares;

/* Devices of other processes are lost: there is no plan, and queries wait. */
typedef struct outage {
    bool active;
    double since, next; /* clock_now: of the loss, of the next attempt */
    double waited;      /* seconds, by losses before it since anything was generated */
    int losses;         /* those, this one too */
    uint64_t made;      /* tokens generated before the last of them */
    bool told;          /* that waiting is of no use */
    bool vain;          /* --peer-wait is over: new queries are refused; written under the lock, as `why` */
    err why;
} outage;

/* The nodes of --devices; under the engine's lock, but for `before` and `looked`, which are of the engine thread. */
typedef struct known_peers {
    engine_peer *list;   /* [n] */
    engine_peer *before; /* [n] what was counted of connections that ended */
    int n;
    double looked;     /* clock_now of the last look at them */
    pthread_t greeter; /* asks spares whether they are there */
    bool greets, stop;
    pthread_cond_t woken; /* stop has changed */
} known_peers;

/* What the threads of one model share. What has a life of its own is a struct: kv, steps, guesses, harm, away, peers.
 * The rest are single values of three kinds, each under its heading: what the engine was opened with, what the engine
 * thread knows of sessions, and what other threads ask. */
struct engine {
    model *model;
    void (*drop)(model *m);
    const program *prog;   /* the model's */
    plan *plan;            /* the program on its devices */
    struct leader *leader; /* of those on nodes; NULL: there are none */
    own_list told;         /* what it tells them of the model, kept over recoveries */
    token_trie *trie;      /* NULL: nobody has asked for it yet */
    pthread_mutex_t trie_lock;
    tokenizer *tok, *target; /* target: of what an encoder-decoder writes, NULL: tok too */
    draws *draws;
    sampler *sampler; /* of `draws`, for the engine thread */
    dtype kv_type;
    engine_info info;
    int most, places; /* sequences that may run at once: where memory allows; of the plan that is placed, or tried */
    int64_t chunk;
    kv_cache kv;
    step_ring steps;
    draft guesses;
    double step_began;      /* clock_now of the first step under way, or when the one before was collected */
    engine_options options; /* with texts in `texts` */
    arena texts;
    cache_options cache;
    device_list devices;   /* `options.devices`, with the alternatives in use */
    buf devices_text;      /* the list with these */
    device_list served_by; /* a copy of `devices`, when all were there last */
    outage away;           /* recovery.c */
    damage harm;           /* of its files of weights */
    err broken;            /* a device of this process is lost; written under the lock */
    int step_sequences;    /* of --step-sequences, 0: by what a step costs */

    /* of the engine thread: sessions in order (session_is_before) */
    session *waiting, *running;
    session *leaving; /* those that have ended, until no step with rows of theirs is under way */
    int n_running;
    session **ready;       /* [most] those that could have rows in the step that is being filled */
    uint64_t fill;         /* steps filled so far */
    double prompt_seconds; /* of prefill, predicted, since the last step with rows of sessions that generate */
    double used_room;      /* tokens generated / max_tokens, a moving average */
    uint64_t preemptions;  /* engine_stats */
    uint64_t losses;       /* of nodes */
    running_shares shares;
    step_time step_times;

    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    session *inbox, *all; /* inbox: newest first */
    int n_queued;         /* in inbox or waiting */
    bool woken;
    uint64_t last_id;
    engine_stats stats;
    double late_at; /* clock_now from which on the step that is waited for is late; 0: none is */
    uint64_t noted; /* times that slots_note was called */
    known_peers peers;
};

/* An engine around a model that is ready. The model is the engine's from here, also on failure; `drop` ends it. */
int engine_of_model(engine **out, model *m, void (*drop)(model *m), const engine_options *o, err *e);

/* ---- engine.c */
/* engine_open in two steps, between which devices may be chosen: the model, its files verified if that is asked for; an
 * engine around it with its tokenizers. The model is the engine's from there, also on failure. */
int engine_open_model(model **out, const engine_options *o, err *e);
int engine_open_with(engine **out, model *m, const engine_options *o, err *e);
/* The type of its cache: what --kv says, else one as exact as weights and activations. */
dtype engine_kv_type(const engine *g);
/* Of so many seconds that are left to wait: a second at least. */
static inline double engine_patience(double left) { return left > 1 ? left : 1; }
/* Devices of this process that can be used, as devices_here. */
int engine_devices_here(const engine_options *o, device_here *out, int most);
/* Places the program on its devices again, after a loss: with more sequences than before, if nodes have memory for them
 * again, else with as many. patience: seconds that a node has to answer a connection. What an error leaves is closed by
 * engine_unplace. */
int engine_place_again(engine *g, double patience, err *e);
void engine_unplace(engine *g);
/* Waits for the steps under way and drops their results and snapshots; sessions that ended meanwhile are freed. */
void engine_end_steps(engine *g);

/* ---- recovery.c: on the engine thread */
/* A step failed, this one; NULL: none was under way. False: a device did, its queries end. True: other processes are
 * lost; queries wait, to be computed again from their tokens. */
bool recovery_begin(engine *g, const batch *failed);
/* A node says that it ends soon: whether nothing should be sent any more, because another one can take its part; when
 * nothing is under way, that is done. */
bool recovery_leaves(engine *g);
/* Whether its steps have lost nodes again and again: it runs alone, until it has made a token. */
enum { LOSSES_ALONE = 2, LOSSES_MOST = 3 };
static inline bool session_is_suspect(const session *s) { return s->losses >= LOSSES_ALONE; }
/* While devices are away: tries to reach them now and then, ends queries that have waited too long. */
void recovery_go_on(engine *g);

/* ---- peers.c */
int peers_open(engine *g, err *e); /* the nodes that `options.devices` names */
void peers_greet(engine *g);       /* starts to ask spares whether they are there */
void peers_close(engine *g);
void peers_part(engine *g); /* their connections are about to be closed: keeps what was counted */
void peers_lost(void *g);   /* one is lost: wakes the engine thread; from any thread */
/* Looks at them; now and then, unless something has happened. On the engine thread. */
void peers_look(engine *g, bool now);

/* ---- queue.c */
int query_check(const engine *g, const query *q, err *e);         /* as engine_add_query */
int query_check_encoder(const engine *g, const query *q, err *e); /* the encoder input is there if needed, and valid */
bool queue_has_work(engine *g); /* a session could take part in a step, or has to be ended */

/* ---- faulty_rows.c */
/* Whether rows of sequence k of the step that was collected are no numbers (plan_faults): ERR_LIMIT, with layer, token
 * and codec. before: the position of its first row. */
int row_fault_error(const engine *g, const batch *b, int32_t k, int64_t before, err *e);
/* The same of a result: NaN or infinity; minus infinity is a logit of what may not come. */
int row_not_finite(int64_t at, int64_t width, const float *row, err *e);

/* ---- choices.c: on the engine thread */
/* A new session waits for the one that computes the same prompt, if it says so and can. */
void choices_join(engine *g, session *s);
/* The session goes, or stops: of those that wait for it, the first computes the prompt. */
void choices_part(engine *g, session *s);
/* The prompt of s is in the cache: those that waited for it get places, as many as there are, and its pages. Returns
 * their number; to: [most] g->ready will do. */
int choices_fork(engine *g, session *s, session **to);

/* ---- slots.c */
/* Notes how far the running sessions are, for engine_slots. On the engine thread, under the lock. */
void slots_note(engine *g);

/* ---- session_cache.c: on the engine thread */
static inline disk_turn disk_turn_of(const engine *g)
{
    return (disk_turn){.on = g->plan, .idle = !steps_under_way(&g->steps), .step = g->fill};
}
/* Takes slots, rope tables and pages of the encoder input. 0; ERR_BUSY: not now; another code: never. */
int session_admit(engine *g, session *s, err *e);
/* As prefix_follow: before it computes it goes on after what is there of its text; false: it waits. */
bool session_follow(engine *g, session *s);
/* `to`, another beam or choice, goes on with the text of `from`: text_copy. */
void session_copy_text(engine *g, session *to, const session *from);
void session_drop_cache(engine *g, session *s); /* gives all back; no step with rows of it is under way */

/* ---- schedule.c: on the engine thread */
/* Takes new sessions in, ends cancelled ones, gives places. */
void schedule_admit(engine *g);
/* The first part of that: new and cancelled ones. */
void schedule_accept(engine *g);
/* Gives a session that waits a place now, if there is one, and what else it needs. */
bool schedule_admit_one(engine *g, session *s);
/* Pages are needed for a session that runs: another one gives its own up, or, where all others go before it, this one
 * does. True: there are more pages now. False: it has to wait. */
bool schedule_make_room(engine *g, session *s);
/* Positions that a session will probably have in the end: by its limit, and by how much of theirs texts use. */
int64_t schedule_expect(const engine *g, const session *s);
/* All caches are lost: every session goes back to the queue, in its place. */
void schedule_requeue(engine *g);
/* Takes the session out of all lists; it is freed when no step with rows of it is under way. */
void session_end(engine *g, session *s);
void sessions_free_gone(engine *g);
/* Delivers an event that ends the query, then session_end. */
void session_finish(engine *g, session *s, finish_reason why, const char *error);
/* The same with an error: the model gave no finite `what` ("logit"). */
void session_end_not_finite(engine *g, session *s, const char *what);

/* ---- fill.c: on the engine thread */
/* Guesses for the sessions that generate, together at most half of a chunk. */
void schedule_guess(engine *g);
/* Fills the batch, encoder inputs whole. Sessions whose last token is not known yet are left out. */
void schedule_fill(engine *g, batch *to);
