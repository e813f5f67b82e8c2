/* trial.c - see trial.h. All nodes are asked before the first answer is waited for. */
#include "net/trial.h"

#include "base/mem.h"
#include "net/key_file.h"
#include "net/msg.h"

#include <pthread.h>
#include <string.h>

/* A rank: on a node with a connection, here with a thread while a test runs. */
typedef struct trial_rank {
    trial *of;
    int rank;
    address at;
    peer *control; /* NULL: it is here */
    bool answered;
    buf more; /* of a good answer */
    uint8_t token[LINK_RANKS_MAX][LEASE_TOKEN];
    trial_side side;
    const coll_test *test;
    pthread_t thread;
    coll_score score;
    err why; /* of an answer, or of the thread */
} trial_rank;

struct trial {
    const trial_options *o;
    int n;
    trial_rank *ranks; /* [n] */
    peer_self self;
    ways *w;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lost;
    err why;
};

static bool is_far(const trial *t, int r) { return t->o->layout->device[r].node[0] != 0; }

/* ---- nodes */

static void lose(void *ctx, const err *why)
{
    trial *t = ctx;
    pthread_mutex_lock(&t->lock);
    const bool first = !t->lost;
    if (first) t->why = *why;
    t->lost = true;
    ways *w = t->w;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (first && w) ways_fail(w, why);
}

static void control_lost(void *ctx, peer *p, const err *why)
{
    err named = *why;
    err_wrap(&named, "%s", peer_name(p));
    lose(((trial_rank *)ctx)->of, &named);
}

static int control_admit(void *ctx, peer *p, const frame_head *h, uint8_t **room, err *e)
{
    (void)ctx, (void)p, (void)room;
    if (h->kind == MSG_ANSWER && h->bytes <= FRAME_SMALL) return OK;
    return err_set(e, ERR_FORMAT, "a message of kind %u on the connection of a trial", h->kind);
}

static int control_take(void *ctx, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    trial_rank *r = ctx;
    span more;
    (void)e;
    pthread_mutex_lock(&r->of->lock);
    r->why = (err){0};
    r->more.n = 0;
    if (!lease_answer_read(&more, span_of(payload, h->bytes), &r->why)) buf_add(&r->more, more.p, more.n);
    err_wrap(&r->why, "%s", peer_name(p));
    r->answered = true;
    pthread_cond_broadcast(&r->of->changed);
    pthread_mutex_unlock(&r->of->lock);
    return OK;
}

static int ask(trial_rank *r, uint16_t kind, const buf *message, err *e)
{
    const frame_head head = {(uint32_t)message->n, kind, 0};
    if (message->bad) return err_set(e, ERR_MEMORY, "out of memory for a message");
    if (message->n > FRAME_SMALL) return err_set(e, ERR_LIMIT, "the list of devices is too long for nodes");
    r->answered = false; /* nothing is under way */
    return peer_send(r->control, PEER_CONTROL, &head, message->p, e);
}

static int await(trial_rank *r, err *e)
{
    trial *t = r->of;
    int rc = OK;
    pthread_mutex_lock(&t->lock);
    while (!r->answered && !t->lost) pthread_cond_wait(&t->changed, &t->lock);
    if (!r->answered) rc = err_set(e, t->why.code, "%s", t->why.msg);
    else if (r->why.code) rc = err_set(e, r->why.code, "%s", r->why.msg);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int make_tokens(trial *t, err *e)
{
    int rc = OK;
    for (int a = 0; a < t->n && !rc; a++)
        for (int b = a + 1; b < t->n && !rc; b++) {
            rc = hello_random(t->ranks[a].token[b], LEASE_TOKEN, e);
            memcpy(t->ranks[b].token[a], t->ranks[a].token[b], LEASE_TOKEN);
        }
    return rc;
}

static int ask_rank(trial_rank *r, err *e)
{
    trial *t = r->of;
    const peer_use use = {r, control_admit, control_take, control_lost};
    trial_ask a = {.rank = r->rank, .ranks = t->n, .bytes = t->o->layout->bytes, .devices = span_str(t->o->devices)};
    buf message = {0};
    memcpy(a.token, r->token, sizeof a.token);
    trial_ask_write(&message, &a);
    int rc = address_parse(&r->at, t->o->layout->device[r->rank].node, false, e);
    if (!rc) rc = peer_dial(&r->control, &r->at, &t->self, &use, e);
    if (!rc) rc = ask(r, MSG_TRIAL, &message, e);
    buf_free(&message);
    return rc;
}

static int connect_nodes(trial *t, err *e)
{
    int rc = t->o->key_file ? key_file_read(t->self.key, t->o->key_file, e)
                            : err_set(e, ERR_USAGE, "--devices: nodes need --key-file");
    if (!rc) rc = hello_init(&t->self.me, e);
    t->self.me.inexact = true; /* codecs give the same bits everywhere; results are compared */
    if (t->o->timeout > 0) t->self.me.silence_ms = (uint32_t)(t->o->timeout * 1000);
    if (!rc) rc = make_tokens(t, e);
    for (int i = 0; i < t->n && !rc; i++)
        if (is_far(t, i)) rc = ask_rank(&t->ranks[i], e);
    for (int i = 0; i < t->n && !rc; i++)
        if (is_far(t, i)) rc = await(&t->ranks[i], e);
    for (int a = 0; a < t->n && !rc; a++)
        for (int b = 0; b < t->n && !rc; b++)
            if (!is_far(t, a) && is_far(t, b))
                rc = ways_dial(t->w, a, b, &t->ranks[b].at, t->ranks[b].token[a], &t->self, e);
    return rc;
}

/* ---- */

int trial_open(trial **out, const trial_options *o, err *e)
{
    const ways_shape these = trial_shape(o->layout);
    bool here[LINK_RANKS_MAX], far = false;
    trial *t = *out = mem_zero(1, sizeof *t);
    if (!t) return err_set(e, ERR_MEMORY, "out of memory for ranks");
    const ways_use use = {t, lose};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->o = o;
    t->n = o->layout->n;
    t->ranks = mem_zero((size_t)t->n, sizeof *t->ranks);
    int rc = t->ranks ? OK : err_set(e, ERR_MEMORY, "out of memory for ranks");
    for (int i = 0; i < t->n && !rc; i++) {
        here[i] = !is_far(t, i);
        far = far || !here[i];
        t->ranks[i].of = t;
        t->ranks[i].rank = i;
    }
    if (!rc) rc = ways_open(&t->w, &these, here, &use, e);
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
        if (is_far(t, i)) continue;
        t->ranks[i].test = test;
        started[i] = pthread_create(&t->ranks[i].thread, NULL, rank_main, &t->ranks[i]) == 0;
        if (!started[i]) {
            rc = err_set(e, ERR_IO, "cannot start a thread for rank %d of %d", i, t->n);
            link_end *end = ways_end(t->w, i);
            end->kind->give_up(end, rc, "it could not be started");
        }
    }
    for (int i = 0; i < t->n; i++)
        if (started[i]) pthread_join(t->ranks[i].thread, NULL);
    for (int i = 0; i < t->n && !rc; i++)
        if (started[i] && t->ranks[i].why.code) rc = err_set(e, t->ranks[i].why.code, "%s", t->ranks[i].why.msg);
    return rc;
}

int trial_run(trial *t, const coll_test *test, coll_score *to, err *e)
{
    buf message = {0};
    int rc = OK;
    trial_test_write(&message, test);
    for (int i = 0; i < t->n && !rc; i++)
        if (is_far(t, i)) rc = ask(&t->ranks[i], MSG_TEST, &message, e);
    if (!rc) rc = run_here(t, test, e);
    for (int i = 0; i < t->n && !rc; i++) {
        trial_rank *r = &t->ranks[i];
        if (!is_far(t, i)) continue;
        rc = await(r, e);
        if (!rc) rc = trial_score_read(&r->score, buf_span(&r->more), e);
    }
    buf_free(&message);
    *to = t->ranks[0].score; /* of all, on every rank */
    return rc;
}

void trial_close(trial *t)
{
    if (!t) return;
    for (int i = 0; t->ranks && i < t->n; i++) peer_close(t->ranks[i].control);
    ways_close(t->w);
    for (int i = 0; t->ranks && i < t->n; i++) {
        trial_side_close(&t->ranks[i].side);
        buf_free(&t->ranks[i].more);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    mem_free(t->ranks);
    mem_free(t);
}
