/* trial.c - see trial.h. */
#include "net/trial.h"

#include "base/mem.h"
#include "net/at_once.h"
#include "net/key_file.h"
#include "net/msg.h"
#include "net/question.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* A rank: on a node with a connection, here with a thread while a test runs. */
typedef struct trial_rank {
    trial *of;
    int rank;
    peer *control; /* NULL: it is here */
    question q;
    trial_side side;
    const coll_test *test;
    pthread_t thread;
    coll_score score;
    err why; /* of the thread */
} trial_rank;

struct trial {
    const trial_options *o;
    int n;
    trial_rank *ranks; /* [n] */
    peer_self self;
    rank_links_nodes nodes;
    rank_links *w;
    asking asks;
};

static bool is_remote(const trial *t, int r) { return device_at(&t->o->layout->devices, r)->node[0] != 0; }

/* ---- nodes */

static void on_lost(void *ctx, const err *why) { rank_links_fail(((trial *)ctx)->w, why); }

static void links_lost(void *ctx, const err *why) { asking_lose(&((trial *)ctx)->asks, why); }

static void hear(void *ctx, const progress *said) { question_hear(ctx, said); }
static int look_at_question(void *ctx, err *e) { return question_look(ctx, PROGRESS_TRIAL, e); }

static int ask_rank(void *ctx, int i, err *e)
{
    trial *t = ctx;
    trial_rank *r = &t->ranks[i];
    peer_use use = question_use(&r->q);
    trial_ask a = {.rank = r->rank, .ranks = t->n, .bytes = t->o->layout->bytes, .devices = span_str(t->o->devices)};
    address *at = &t->nodes.at[r->rank];
    buf message = {0};
    if (!is_remote(t, i)) return OK;
    use.hear = hear;
    use.look = look_at_question;
    memcpy(a.token, t->nodes.token[r->rank], sizeof a.token);
    trial_ask_write(&message, &a);
    int rc = message.n > FRAME_SMALL ? err_set(e, ERR_LIMIT, "the list of devices is too long for nodes") : OK;
    if (!rc) rc = address_parse(at, device_at(&t->o->layout->devices, r->rank)->node, false, e);
    if (!rc) rc = peer_dial(&r->control, at, &t->self, &use, e);
    if (!rc) rc = question_ask(&r->q, r->control, MSG_TRIAL, &message, e);
    buf_free(&message);
    return rc;
}

static int connect_nodes(trial *t, err *e)
{
    int rc = t->o->key_file ? peer_self_open(&t->self, t->o->key_file, e)
                            : err_set(e, ERR_USAGE, "--devices: nodes need --key-file");
    t->self.me.inexact = true; /* codecs give the same bits everywhere; results are compared */
    if (t->o->timeout > 0) t->self.me.silence_ms = (uint32_t)(t->o->timeout * 1000);
    if (!rc) rc = rank_links_make_tokens(&t->nodes, t->n, e);
    if (!rc) rc = at_once(t->n, ask_rank, t, e);
    for (int i = 0; i < t->n && !rc; i++)
        if (is_remote(t, i)) rc = question_await(&t->ranks[i].q, INFINITY, e);
    return rc ? rc : rank_links_dial_all(t->w, &t->nodes, &t->self, e);
}

/* ---- */

int trial_open(trial **out, const trial_options *o, err *e)
{
    const rank_links_shape these = trial_shape(o->layout);
    bool here[LINK_RANKS_MAX], far = false;
    trial *t = *out = mem_zero(1, sizeof *t);
    if (!t) return err_memory(e, "ranks");
    const rank_links_use use = {t, links_lost};
    asking_open(&t->asks, on_lost, t);
    t->o = o;
    t->n = o->layout->devices.n;
    t->ranks = mem_zero((size_t)t->n, sizeof *t->ranks);
    int rc = t->ranks ? OK : err_memory(e, "ranks");
    for (int i = 0; i < t->n && !rc; i++) {
        here[i] = !is_remote(t, i);
        far = far || !here[i];
        t->ranks[i].of = t;
        t->ranks[i].rank = i;
        t->ranks[i].q.of = &t->asks;
    }
    if (!rc) rc = rank_links_open(&t->w, &these, here, &use, e);
    for (int i = 0; i < t->n && !rc; i++) t->ranks[i].side = (trial_side){.wire = o->wire[i], .w = t->w, .rank = i};
    if (!rc && far) rc = connect_nodes(t, e);
    if (!rc) return OK;
    trial_close(t);
    *out = NULL;
    return rc;
}

static void *rank_main(void *arg)
{
    trial_rank *r = arg;
    r->why = (err){0};
    trial_side_run(&r->side, r->test, &r->score, &r->why);
    return NULL;
}

/* Ranks here: those that could be started; rc: the others wait for one in vain. */
static int run_here(trial *t, const coll_test *test, err *e)
{
    int rc = OK;
    bool started[LINK_RANKS_MAX] = {false};
    for (int i = 0; i < t->n && !rc; i++) {
        if (is_remote(t, i)) continue;
        t->ranks[i].test = test;
        started[i] = pthread_create(&t->ranks[i].thread, NULL, rank_main, &t->ranks[i]) == 0;
        if (!started[i]) {
            rc = err_set(e, ERR_IO, "cannot start a thread for rank %d of %d", i, t->n);
            link_end *end = rank_links_end(t->w, i, 0);
            end->kind->give_up(end, rc, "it could not be started");
        }
    }
    for (int i = 0; i < t->n; i++)
        if (started[i]) pthread_join(t->ranks[i].thread, NULL);
    for (int i = 0; i < t->n && !rc; i++)
        if (started[i] && t->ranks[i].why.code) rc = err_copy(e, &t->ranks[i].why);
    return rc;
}

int trial_run(trial *t, const coll_test *test, coll_score *to, err *e)
{
    buf message = {0};
    int rc = OK;
    trial_test_write(&message, test);
    for (int i = 0; i < t->n && !rc; i++)
        if (is_remote(t, i)) rc = question_ask(&t->ranks[i].q, t->ranks[i].control, MSG_TEST, &message, e);
    if (!rc) rc = run_here(t, test, e);
    for (int i = 0; i < t->n && !rc; i++) {
        trial_rank *r = &t->ranks[i];
        if (!is_remote(t, i)) continue;
        rc = question_await(&r->q, INFINITY, e);
        if (!rc) rc = trial_score_read(&r->score, buf_span(&r->q.more), e);
    }
    buf_free(&message);
    *to = t->ranks[0].score; /* of all, on every rank */
    return rc;
}

void trial_close(trial *t)
{
    if (!t) return;
    for (int i = 0; t->ranks && i < t->n; i++) peer_close(t->ranks[i].control);
    rank_links_close(t->w);
    for (int i = 0; t->ranks && i < t->n; i++) {
        trial_side_close(&t->ranks[i].side);
        buf_free(&t->ranks[i].q.more);
    }
    asking_close(&t->asks);
    mem_free(t->ranks);
    mem_free(t);
}
