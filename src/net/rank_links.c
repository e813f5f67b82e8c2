/* rank_links.c - see rank_links.h. */
#include "net/rank_links.h"

#include "base/cond.h"
#include "base/mem.h"
#include "comm/link_threads.h"
#include "net/at_once.h"
#include "net/link_tls.h"
#include "net/msg.h"
#include "net/question.h"
#include "plan/remote.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_SECONDS = 10 };

typedef struct rank_link {
    rank_links *of;
    int a, b;               /* rank here, rank there */
    mailboxes *_Atomic box; /* NULL: rank_links_fill was not called yet */
    peer *p;                /* that it goes over */
    bool shared;            /* with others, by the mark */
    int mark;
    /* Under the lock of `asks`: */
    bool joined;
    bool says;  /* a JOIN of this process is under way, or was taken */
    peer *own;  /* dialled by this process, which closes it */
    question q; /* JOIN */
} rank_link;

struct rank_links {
    int n;
    rank_link *all; /* [n_link] */
    int n_link, cap;
    int lanes;
    bool leads; /* its process dials, whatever the ranks */
    bool stopped;
    link_group *local[PLAN_LANES];
    link_tls *end[LINK_RANKS_MAX][PLAN_LANES];
    rank_links_use use;
    asking asks;
};

static rank_link *find_link(const rank_links *w, int a, int b)
{
    for (int i = 0; i < w->n_link; i++)
        if (w->all[i].a == a && w->all[i].b == b) return &w->all[i];
    return NULL;
}

/* ---- the end */

static void on_lost(void *ctx, const err *why)
{
    const rank_links *w = ctx;
    for (int i = 0; i < w->n_link; i++)
        if (w->all[i].box) mailboxes_lost(w->all[i].box, why);
    w->use.lost(w->use.ctx, why);
}

void rank_links_fail(rank_links *w, const err *why) { asking_lose(&w->asks, why); }

bool rank_links_failed(const rank_links *w)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&w->asks.lock;
    pthread_mutex_lock(lock);
    const bool is = w->asks.lost;
    pthread_mutex_unlock(lock);
    return is;
}

/* ---- opening */

static uint64_t plan_bytes(const void *of, int a, int b, int channel) { return plan_channel_bytes(of, a, b, channel); }
static const char *node_of_plan(const void *of, int rank) { return plan_node(of, rank); }

rank_links_shape rank_links_of_plan(const plan *l)
{
    return (rank_links_shape){plan_segments(l), plan_lanes(l), plan_channels(l), l, plan_bytes, node_of_plan};
}

/* Whether two hand each other anything; *bytes [lanes * channels]: how much at most, NULL ok. */
static bool hands(const rank_links_shape *s, int a, int b, uint64_t *bytes)
{
    uint64_t any = 0;
    for (int c = 0; c < s->lanes * s->channels; c++) {
        const uint64_t n = s->bytes(s->of, a, b, c % s->channels);
        if (bytes) bytes[c] = n;
        any |= n;
    }
    return any;
}

void rank_links_others_of(rank_links_others *to, const rank_links_shape *s, int rank, const char *mine)
{
    *to = (rank_links_others){.rank = rank, .ranks = s->ranks};
    for (int b = 0; b < s->ranks; b++) {
        const char *node = b == rank ? mine : s->node(s->of, b);
        to->is[b] = b != rank && hands(s, rank, b, NULL);
        snprintf(to->node[b], sizeof to->node[b], "%s", node ? node : "");
    }
}

static int make_links(rank_links **out, int ranks, const rank_links_use *use, err *e)
{
    rank_links *w = *out = mem_zero(1, sizeof *w);
    if (!w) return err_memory(e, "connections");
    asking_open(&w->asks, on_lost, w);
    w->n = ranks;
    w->use = *use;
    w->all = mem_zero((size_t)ranks * (size_t)ranks, sizeof *w->all);
    return w->all ? OK : err_memory(e, "connections");
}

static void add(rank_links *w, int a, int b)
{
    rank_link *x = &w->all[w->n_link++];
    x->of = w;
    x->q.of = &w->asks;
    x->a = a;
    x->b = b;
}

int rank_links_begin(rank_links **out, const rank_links_others *o, const rank_links_use *use, err *e)
{
    int rc = make_links(out, o->ranks, use, e);
    for (int b = 0; b < o->ranks && !rc; b++)
        if (o->is[b]) add(*out, o->rank, b);
    return rc;
}

/* Boxes, and an end of the link, for rank a. */
static int fill_rank(rank_links *w, const rank_links_shape *s, int a, const bool *here, mailboxes **to, err *e)
{
    const int n = s->lanes * s->channels;
    uint64_t *bytes = mem_array((size_t)n, sizeof *bytes);
    int rc = bytes ? OK : err_memory(e, "connections");
    for (int b = 0; b < w->n && !rc; b++) {
        const char *node = s->node(s->of, b);
        const bool need = !here[b] && hands(s, a, b, bytes);
        if (need != (find_link(w, a, b) != NULL))
            rc = err_set(e, ERR_FORMAT, "ranks %d and %d hand each other other things than the leader says", a, b);
        else if (need) rc = mailboxes_open(&to[b], n, bytes, node && *node ? node : "the leader", e);
    }
    mem_free(bytes);
    for (int k = 0; k < s->lanes && !rc; k++)
        rc = link_tls_open(&w->end[a][k], w->local[k], a, k * s->channels, s->channels, to, e);
    return rc;
}

/* From now on messages come. */
static int attach(rank_link *x, mailboxes *box, err *e)
{
    asking *s = &x->of->asks;
    pthread_mutex_lock(&s->lock);
    x->box = box;
    int rc = s->lost ? err_copy(e, &s->why) : x->joined ? mailboxes_join(box, x->p, x->mark, e) : OK;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int rank_links_fill(rank_links *w, const rank_links_shape *s, const bool *here, err *e)
{
    int rc = s->ranks == w->n ? OK : err_set(e, ERR_FORMAT, "another number of ranks");
    for (int k = 0; k < s->lanes && !rc; k++, w->lanes++) rc = link_threads_open(&w->local[k], w->n, s->channels, e);
    for (int a = 0; a < w->n && !rc; a++) {
        mailboxes *to[LINK_RANKS_MAX] = {NULL};
        if (!here[a]) continue;
        rc = fill_rank(w, s, a, here, to, e);
        for (int b = 0; b < w->n; b++) {
            if (!to[b]) continue;
            if (!rc) rc = attach(find_link(w, a, b), to[b], e);
            else mailboxes_close(to[b]);
        }
    }
    return rc;
}

int rank_links_open(rank_links **out, const rank_links_shape *s, const bool *here, const rank_links_use *use, err *e)
{
    int rc = make_links(out, s->ranks, use, e);
    for (int a = 0; a < s->ranks && !rc; a++)
        for (int b = 0; b < s->ranks; b++)
            if (here[a] && !here[b] && hands(s, a, b, NULL)) add(*out, a, b);
    return rc ? rc : rank_links_fill(*out, s, here, e);
}

link_end *rank_links_end(const rank_links *w, int a, int lane)
{
    return w->end[a][lane] ? link_tls_end(w->end[a][lane]) : NULL;
}

uint64_t rank_links_sent(const rank_links *w, int a)
{
    uint64_t n = 0;
    for (int i = 0; i < w->n_link; i++)
        if (w->all[i].a == a && w->all[i].p) n += peer_sent(w->all[i].p);
    return n;
}

void rank_links_count(const rank_links *w, int b, peer_bytes *to)
{
    for (int i = 0; i < w->n_link; i++)
        if (w->all[i].b == b && w->all[i].p && !w->all[i].shared) peer_count(w->all[i].p, to);
}

void rank_links_count_dialled(const rank_links *w, peer_bytes *to)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&w->asks.lock;
    pthread_mutex_lock(lock);
    for (int i = 0; i < w->n_link; i++)
        if (w->all[i].own) peer_count(w->all[i].own, to);
    pthread_mutex_unlock(lock);
}

/* ---- messages */

mailboxes *rank_links_mailboxes(const rank_links *w, int a, int b)
{
    const rank_link *x = find_link(w, a, b);
    return x ? x->box : NULL;
}

mailboxes *rank_links_shared_mailboxes(const rank_links *w, const peer *p, const frame_head *h)
{
    for (int i = 0; w && i < w->n_link; i++)
        if (w->all[i].shared && w->all[i].p == p && w->all[i].mark == mailboxes_mark(h)) return w->all[i].box;
    return NULL;
}

static void *dialled_receiver(void *ctx, peer *p, const frame_head *h, msg_receiver kind)
{
    rank_link *x = ctx;
    (void)p, (void)h;
    return kind == FOR_MAILBOXES ? (void *)x->box : kind == FOR_QUESTION ? &x->q : NULL;
}

/* Before the other side has agreed nothing is lost but this try. */
static void dialled_lost(void *ctx, peer *p, const err *why)
{
    rank_link *x = ctx;
    pthread_mutex_lock(&x->of->asks.lock);
    const bool counts = x->own == p;
    pthread_mutex_unlock(&x->of->asks.lock);
    if (counts) question_lost(&x->q, p, why);
    else question_fail(&x->q, p, why);
}

/* ---- connecting */

int rank_links_share(rank_links *w, int a, int b, int mark, peer *p, err *e)
{
    rank_link *x = find_link(w, a, b);
    if (!x) return OK;
    x->p = p;
    x->mark = mark;
    x->shared = true;
    pthread_mutex_lock(&w->asks.lock);
    x->joined = true;
    int rc = x->box ? mailboxes_join(x->box, p, mark, e) : OK;
    pthread_mutex_unlock(&w->asks.lock);
    return rc;
}

/* Whether to say JOIN. The higher rank says it to one that waits for it, which not all did before protocol 4. */
static bool still_missing(void *ctx, bool quick)
{
    rank_link *x = ctx;
    pthread_mutex_lock(&x->of->asks.lock);
    const bool says = !x->joined && !x->of->asks.lost && (quick || x->a < x->b || x->of->leads);
    x->says = says;
    pthread_mutex_unlock(&x->of->asks.lock);
    if (says) question_expect(&x->q);
    return says;
}

/* What became of a dialled connection. */
static int settle(rank_link *x, peer *p, int rc, err *e)
{
    asking *s = &x->of->asks;
    pthread_mutex_lock(&s->lock);
    const bool other = x->joined || s->lost;
    x->says = !rc && !other;
    if (x->says && x->q.why.code) rc = err_copy(e, &x->q.why); /* lost meanwhile */
    if (x->says && !rc && x->box) rc = mailboxes_join(x->box, p, 0, e);
    const bool wanted = x->says = x->says && !rc;
    if (wanted) x->own = x->p = p;
    x->joined = x->joined || wanted;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (!wanted) peer_close(p);
    return other && x->joined ? OK : rc;
}

int rank_links_dial(rank_links *w, int a, int b, const address *at, const uint8_t token[LEASE_TOKEN],
                    const peer_self *self, double seconds, err *e)
{
    rank_link *x = find_link(w, a, b);
    lease_join join = {.from = a};
    buf message = {0};
    peer *p = NULL;
    if (!x) return OK;
    memcpy(join.token, token, LEASE_TOKEN);
    lease_join_write(&message, &join);
    peer_first first = {.head = {(uint32_t)message.n, MSG_JOIN, 0}, .payload = message.p};
    const peer_use use = {
        .ctx = x, .receiver = dialled_receiver, .lost = dialled_lost, .first = &first, .wanted = still_missing};
    int rc = message.bad ? err_memory(e, "a message") : OK;
    if (!rc) rc = peer_dial(&p, at, self, &use, e);
    if (!rc && !first.said) rc = question_ask(&x->q, p, MSG_JOIN, &message, e);
    if (!rc) rc = question_await(&x->q, seconds, e);
    buf_free(&message);
    return settle(x, p, rc, e);
}

bool rank_links_misses(rank_links *w, int a, int b, double seconds)
{
    rank_link *x = find_link(w, a, b);
    const double until = clock_now() + seconds;
    if (!x) return false;
    pthread_mutex_lock(&w->asks.lock);
    for (bool in_time = true; !x->joined && !w->asks.lost && in_time;)
        in_time = cond_wait(&w->asks.changed, &w->asks.lock, until);
    const bool is = !x->joined && !w->asks.lost;
    pthread_mutex_unlock(&w->asks.lock);
    return is;
}

int rank_links_make_tokens(rank_links_nodes *n, int ranks, err *e)
{
    int rc = OK;
    for (int a = 0; a < ranks && !rc; a++)
        for (int b = a + 1; b < ranks && !rc; b++) {
            rc = hello_random(n->token[a][b], LEASE_TOKEN, e);
            memcpy(n->token[b][a], n->token[a][b], LEASE_TOKEN);
        }
    return rc;
}

typedef struct dial_all {
    rank_links *w;
    const rank_links_nodes *n;
    const peer_self *self;
} dial_all;

static int dial_one(void *ctx, int i, err *e)
{
    const dial_all *d = ctx;
    const int a = d->w->all[i].a, b = d->w->all[i].b;
    if (d->w->all[i].shared) return OK;
    return rank_links_dial(d->w, a, b, &d->n->at[b], d->n->token[a][b], d->self, ANSWER_SECONDS, e);
}

int rank_links_dial_all(rank_links *w, const rank_links_nodes *n, const peer_self *self, err *e)
{
    dial_all d = {w, n, self};
    w->leads = true;
    return at_once(w->n_link, dial_one, &d, e);
}

int rank_links_accept(rank_links *w, int a, int b, peer *p, err *e)
{
    rank_link *x = find_link(w, a, b);
    int rc = OK;
    if (!x) return err_set(e, ERR_FORMAT, "ranks %d and %d hand each other nothing", b, a);
    pthread_mutex_lock(&w->asks.lock);
    if (x->joined) rc = err_set(e, ERR_BUSY, "rank %d has joined already", b);
    else if (x->says && a < b) rc = err_set(e, ERR_BUSY, "rank %d joins by itself", a);
    if (!rc && x->box) rc = mailboxes_join(x->box, p, 0, e);
    if (!rc) x->p = p;
    x->joined = x->joined || !rc;
    pthread_cond_broadcast(&w->asks.changed);
    pthread_mutex_unlock(&w->asks.lock);
    return rc;
}

int rank_links_wait(rank_links *w, double seconds, int *missing, err *e)
{
    const double until = clock_now() + seconds;
    asking *s = &w->asks;
    int rc = OK;
    pthread_mutex_lock(&s->lock);
    for (bool in_time = true;; in_time = cond_wait(&s->changed, &s->lock, until)) {
        *missing = -1;
        for (int i = 0; i < w->n_link; i++)
            if (!w->all[i].joined) *missing = w->all[i].b;
        if (*missing < 0 || s->lost || !in_time) break;
    }
    if (s->lost) rc = err_copy(e, &s->why);
    else if (*missing >= 0) rc = err_set(e, ERR_IO, "rank %d did not connect within %.0f seconds", *missing, seconds);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void rank_links_stop(rank_links *w)
{
    static const err why = {.code = ERR_CANCELLED, .msg = "the ranks have ended"};
    if (w->stopped) return;
    w->stopped = true; /* peers of others are not touched again */
    for (int i = 0; i < w->n_link; i++) {
        rank_link *x = &w->all[i];
        if (x->p) peer_drop(x->p, &why);
        if (x->box) mailboxes_stop(x->box);
        if (!x->own && !x->shared) x->p = NULL; /* its owner closes it */
    }
}

void rank_links_close(rank_links *w)
{
    if (!w) return;
    for (int i = 0; i < w->n_link; i++)
        if (w->all[i].box) mailboxes_stop(w->all[i].box);
    for (int i = 0; i < w->n_link; i++) peer_close(w->all[i].own);
    for (int i = 0; i < w->n_link; i++) {
        mailboxes_close(w->all[i].box);
        buf_free(&w->all[i].q.more);
    }
    for (int k = 0; k < PLAN_LANES; k++) {
        for (int i = 0; i < w->n; i++) link_tls_close(w->end[i][k]);
        link_threads_close(w->local[k]);
    }
    asking_close(&w->asks);
    mem_free(w->all);
    mem_free(w);
}
