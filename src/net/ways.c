/* ways.c - see ways.h. */
#include "net/ways.h"

#include "base/cond.h"
#include "base/mem.h"
#include "comm/link_threads.h"
#include "net/link_tls.h"
#include "net/msg.h"
#include "plan/far.h"

#include <pthread.h>
#include <string.h>

enum { ANSWER_SECONDS = 10 };

typedef struct way {
    ways *of;
    int a, b; /* rank here, rank there */
    boxes *box;
    peer *p;
    bool dialled; /* by this process: then the peer is its own */
    bool joined, answered;
    int rc; /* of the answer */
    err why;
} way;

struct ways {
    int n;
    way *all; /* [n_way] */
    int n_way, cap;
    link_group *local;
    link_tls *end[LINK_RANKS_MAX];
    ways_use use;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lost;
    err why;
};

static way *find(const ways *w, int a, int b)
{
    for (int i = 0; i < w->n_way; i++)
        if (w->all[i].a == a && w->all[i].b == b) return &w->all[i];
    return NULL;
}

/* ---- opening */

static uint64_t plan_bytes(const void *of, int a, int b, int channel) { return plan_channel_bytes(of, a, b, channel); }
static const char *node_of_plan(const void *of, int rank) { return plan_node(of, rank); }

ways_shape ways_of_plan(const plan *l)
{
    return (ways_shape){plan_segments(l), plan_channels(l), l, plan_bytes, node_of_plan};
}

static int open_way(ways *w, const ways_shape *s, int a, int b, err *e)
{
    uint64_t *bytes = mem_array((size_t)s->channels, sizeof *bytes), any = 0;
    if (!bytes) return err_set(e, ERR_MEMORY, "out of memory for connections");
    for (int c = 0; c < s->channels; c++) any |= bytes[c] = s->bytes(s->of, a, b, c);
    int rc = OK;
    if (any) {
        way *to = &w->all[w->n_way];
        const char *node = s->node(s->of, b);
        rc = boxes_open(&to->box, s->channels, bytes, node ? node : "the leader", e);
        if (!rc) w->n_way++;
        to->of = w;
        to->a = a;
        to->b = b;
    }
    mem_free(bytes);
    return rc;
}

int ways_open(ways **out, const ways_shape *s, const bool *here, const ways_use *use, err *e)
{
    const int n = s->ranks;
    ways *w = *out = mem_zero(1, sizeof *w);
    if (!w) return err_set(e, ERR_MEMORY, "out of memory for connections");
    pthread_mutex_init(&w->lock, NULL);
    cond_open(&w->changed);
    w->n = n;
    w->use = *use;
    w->all = mem_zero((size_t)n * (size_t)n, sizeof *w->all);
    int rc = w->all ? link_threads_open(&w->local, n, s->channels, e) : err_set(e, ERR_MEMORY, "out of memory");
    for (int a = 0; a < n && !rc; a++)
        for (int b = 0; b < n && !rc; b++)
            if (here[a] && !here[b]) rc = open_way(w, s, a, b, e);
    for (int a = 0; a < n && !rc; a++) {
        boxes *to[LINK_RANKS_MAX] = {NULL};
        for (int b = 0; b < n; b++) {
            const way *x = find(w, a, b);
            if (x) to[b] = x->box;
        }
        if (here[a]) rc = link_tls_open(&w->end[a], w->local, a, 0, s->channels, to, e);
    }
    return rc;
}

link_end *ways_end(const ways *w, int a) { return w->end[a] ? link_tls_end(w->end[a]) : NULL; }

uint64_t ways_sent(const ways *w, int a)
{
    uint64_t n = 0;
    for (int i = 0; i < w->n_way; i++)
        if (w->all[i].a == a && w->all[i].p) n += peer_sent(w->all[i].p);
    return n;
}

/* ---- messages */

void ways_fail(ways *w, const err *why)
{
    pthread_mutex_lock(&w->lock);
    const bool first = !w->lost;
    if (first) w->why = *why;
    w->lost = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_way && first; i++) boxes_lost(w->all[i].box, why);
    if (first) w->use.lost(w->use.ctx, why);
}

int ways_admit(ways *w, int a, int b, const frame_head *h, uint8_t **room, err *e)
{
    const way *x = find(w, a, b);
    if (x && boxes_know(h->kind)) return boxes_admit(x->box, h, room, e);
    return err_set(e, ERR_FORMAT, "a message of kind %u between ranks", h->kind);
}

int ways_take(ways *w, int a, int b, const frame_head *h, const uint8_t *payload, err *e)
{
    return boxes_deliver(find(w, a, b)->box, h, payload, e);
}

static int dialled_admit(void *ctx, peer *p, const frame_head *h, uint8_t **room, err *e)
{
    const way *x = ctx;
    (void)p;
    if (h->kind == MSG_ANSWER && h->bytes <= FRAME_SMALL) return OK;
    return ways_admit(x->of, x->a, x->b, h, room, e);
}

static int dialled_take(void *ctx, peer *p, const frame_head *h, const uint8_t *payload, err *e)
{
    way *x = ctx;
    span more;
    (void)p;
    if (h->kind != MSG_ANSWER) return ways_take(x->of, x->a, x->b, h, payload, e);
    pthread_mutex_lock(&x->of->lock);
    x->rc = lease_answer_read(&more, span_of(payload, h->bytes), &x->why);
    x->answered = true;
    pthread_cond_broadcast(&x->of->changed);
    pthread_mutex_unlock(&x->of->lock);
    return OK;
}

static void dialled_lost(void *ctx, peer *p, const err *why)
{
    err named = *why;
    err_wrap(&named, "%s", peer_name(p));
    ways_fail(((way *)ctx)->of, &named);
}

/* ---- connecting */

static int wait_answer(way *x, err *e)
{
    ways *w = x->of;
    const double until = clock_now() + ANSWER_SECONDS;
    bool in_time = true;
    pthread_mutex_lock(&w->lock);
    while (!x->answered && !w->lost && in_time) in_time = cond_wait(&w->changed, &w->lock, until);
    int rc = x->answered ? x->rc : w->lost ? w->why.code : ERR_IO;
    if (rc)
        err_set(e, rc, "%s: %s", peer_name(x->p),
                x->answered ? x->why.msg
                : w->lost   ? w->why.msg
                            : "no answer to a rank that joins");
    else x->joined = true;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int ways_dial(ways *w, int a, int b, const address *at, const uint8_t token[LEASE_TOKEN], const peer_self *self, err *e)
{
    way *x = find(w, a, b);
    const peer_use use = {x, dialled_admit, dialled_take, dialled_lost};
    lease_join join = {.from = a};
    buf message = {0};
    if (!x) return OK;
    memcpy(join.token, token, LEASE_TOKEN);
    int rc = lease_join_write(&message, &join) ? OK : err_set(e, ERR_MEMORY, "out of memory");
    pthread_mutex_lock(&w->lock);
    x->dialled = true;
    pthread_mutex_unlock(&w->lock);
    if (!rc) rc = peer_dial(&x->p, at, self, &use, e);
    if (!rc) rc = boxes_join(x->box, x->p, e);
    const frame_head head = {(uint32_t)message.n, MSG_JOIN, 0};
    if (!rc) rc = peer_send(x->p, PEER_CONTROL, &head, message.p, e);
    buf_free(&message);
    return rc ? rc : wait_answer(x, e);
}

int ways_accept(ways *w, int a, int b, peer *p, err *e)
{
    way *x = find(w, a, b);
    int rc = OK;
    if (!x) return err_set(e, ERR_FORMAT, "ranks %d and %d hand each other nothing", b, a);
    pthread_mutex_lock(&w->lock);
    if (x->joined || x->dialled) rc = err_set(e, ERR_FORMAT, "rank %d has joined already", b);
    if (!rc) rc = boxes_join(x->box, p, e);
    if (!rc) x->p = p;
    x->joined = x->joined || !rc;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int ways_wait(ways *w, double seconds, err *e)
{
    const double until = clock_now() + seconds;
    int rc = OK, missing = -1;
    pthread_mutex_lock(&w->lock);
    for (bool in_time = true;; in_time = cond_wait(&w->changed, &w->lock, until)) {
        missing = -1;
        for (int i = 0; i < w->n_way; i++)
            if (!w->all[i].joined) missing = w->all[i].b;
        if (missing < 0 || w->lost || !in_time) break;
    }
    if (w->lost) rc = err_set(e, w->why.code, "%s", w->why.msg);
    else if (missing >= 0) rc = err_set(e, ERR_IO, "rank %d did not connect within %.0f seconds", missing, seconds);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void ways_stop(ways *w)
{
    static const err why = {.code = ERR_CANCELLED, .msg = "the ranks have ended"};
    for (int i = 0; i < w->n_way; i++) {
        way *x = &w->all[i];
        if (x->p) peer_drop(x->p, &why);
        boxes_stop(x->box);
        if (!x->dialled) x->p = NULL; /* its owner closes it */
    }
}

void ways_close(ways *w)
{
    if (!w) return;
    for (int i = 0; i < w->n_way; i++) boxes_stop(w->all[i].box);
    for (int i = 0; i < w->n_way; i++)
        if (w->all[i].dialled) peer_close(w->all[i].p);
    for (int i = 0; i < w->n_way; i++) boxes_close(w->all[i].box);
    for (int i = 0; i < w->n; i++) link_tls_close(w->end[i]);
    link_threads_close(w->local);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    mem_free(w->all);
    mem_free(w);
}
