/* link_tls.c - see link_tls.h. The word that mailboxes move is that of the end among threads, so one wait serves both.
 * */
#include "net/link_tls.h"

#include "base/mem.h"

#include <stdio.h>

struct link_tls {
    link_end base;   /* first */
    link_end *local; /* the end of the same rank among threads */
    int box0;
    mailboxes *to[LINK_RANKS_MAX];
};

static link_tls *end_of(link_end *l) { return (link_tls *)l; }

static int tls_post(link_end *l, int to, int channel, const void *bytes, uint64_t n, err *e)
{
    link_tls *t = end_of(l);
    int rc = t->to[to] ? mailboxes_post(t->to[to], t->box0 + channel, bytes, n, e)
                       : t->local->kind->post(t->local, to, channel, bytes, n, e);
    if (!rc) l->posted += n;
    return rc;
}

static bool tls_taken(link_end *l, int to, int channel)
{
    link_tls *t = end_of(l);
    const bool is = t->to[to] ? mailboxes_taken(t->to[to], t->box0 + channel)
                              : t->local->kind->taken(t->local, to, channel);
    if (!is) l->sought = to + 1;
    return is;
}

static int tls_take(link_end *l, int from, int channel, uint64_t n, const void **bytes, err *e)
{
    link_tls *t = end_of(l);
    const int rc = t->to[from] ? mailboxes_take(t->to[from], t->box0 + channel, n, bytes, e)
                               : t->local->kind->take(t->local, from, channel, n, bytes, e);
    if (!*bytes) l->sought = from + 1;
    return rc;
}

static void tls_release(link_end *l, int from, int channel)
{
    link_tls *t = end_of(l);
    if (t->to[from]) mailboxes_release(t->to[from], t->box0 + channel);
    else t->local->kind->release(t->local, from, channel);
}

static int check_all(const link_tls *t, err *e)
{
    int rc = OK;
    for (int r = 0; r < t->base.ranks && !rc; r++)
        if (t->to[r]) rc = mailboxes_check(t->to[r], e);
    return rc;
}

static int tls_wait(link_end *l, err *e)
{
    link_tls *t = end_of(l);
    int rc = check_all(t, e);
    __atomic_store_n(&l->waits_for, l->sought, __ATOMIC_RELAXED);
    if (!rc) rc = t->local->kind->wait(t->local, e);
    __atomic_store_n(&l->waits_for, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&l->waited, 1, __ATOMIC_RELAXED);
    return rc ? rc : check_all(t, e);
}

static void tls_give_up(link_end *l, int code, const char *why)
{
    link_tls *t = end_of(l);
    char text[ERR_MSG_MAX];
    snprintf(text, sizeof text, "rank %d of %d: %s", l->rank, l->ranks, why);
    t->local->kind->give_up(t->local, code, why);
    for (int r = 0; r < l->ranks; r++)
        if (t->to[r]) mailboxes_give_up(t->to[r], code, text);
}

static const link_kind tls_kind = {
    .name = "tls",
    .post = tls_post,
    .taken = tls_taken,
    .take = tls_take,
    .release = tls_release,
    .wait = tls_wait,
    .give_up = tls_give_up,
};

int link_tls_open(link_tls **out, link_group *local, int rank, int box0, int channels, mailboxes *const *to, err *e)
{
    link_tls *l = *out = mem_zero(1, sizeof *l);
    if (!l) return err_memory(e, NULL);
    l->local = link_threads_end(local, rank);
    l->base = (link_end){.kind = &tls_kind, .rank = rank, .ranks = l->local->ranks};
    l->box0 = box0;
    for (int r = 0; r < l->base.ranks; r++) {
        l->to[r] = to[r];
        if (to[r]) mailboxes_watch(to[r], box0, channels, link_threads_word(local, rank));
    }
    return OK;
}

link_end *link_tls_end(link_tls *l) { return &l->base; }

void link_tls_close(link_tls *l) { mem_free(l); }
