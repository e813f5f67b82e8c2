/* hosted_rank.c - see hosted_rank.h. */
#include "net/hosted_rank.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/question.h"

#include <string.h>

enum { JOIN_SECONDS = 10 };

/* ---- the end */

void hosted_end(hosted_rank *r, const err *why)
{
    pthread_mutex_lock(&r->lock);
    const bool first = !r->over;
    if (first) r->why = *why;
    r->over = true;
    rank_links *w = r->links;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (first) quota_expect(r->host->memory);
    if (first && r->kind->end) r->kind->end(r, why);
    if (first && w) rank_links_fail(w, why);
}

static void links_lost(void *ctx, const err *why) { hosted_end(ctx, why); }

bool hosted_is_over(const hosted_rank *r)
{
    pthread_mutex_lock((pthread_mutex_t *)&r->lock);
    const bool over = r->over;
    pthread_mutex_unlock((pthread_mutex_t *)&r->lock);
    return over;
}

/* ---- how far it is */

uint64_t hosted_thread_work(hosted_rank *r)
{
    struct timespec t = {0};
    pthread_mutex_lock(&r->lock);
    if (r->carries) clock_gettime(r->worker_time, &t);
    pthread_mutex_unlock(&r->lock);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000 + peer_bulk_taken(r->control);
}

void hosted_progress(hosted_rank *r, progress *out)
{
    *out = (progress){.waits = PROGRESS_WAITS_NOT};
    pthread_mutex_lock(&r->lock);
    out->busy = r->carries || r->pending_kind;
    pthread_mutex_unlock(&r->lock);
    if (out->busy) out->work = hosted_thread_work(r);
    if (r->kind->add_progress) r->kind->add_progress(r, out);
}

bool hosted_works(hosted_rank *r)
{
    progress p;
    hosted_progress(r, &p);
    return p.busy && !hosted_is_over(r);
}

void hosted_count(hosted_rank *r, peer_bytes *to)
{
    const rank_links *w = hosted_links(r);
    if (w) rank_links_count_dialled(w, to);
}

/* ---- links to other ranks */

rank_links *hosted_links(hosted_rank *r)
{
    pthread_mutex_lock(&r->lock);
    rank_links *w = r->links;
    pthread_mutex_unlock(&r->lock);
    return w;
}

static int begin_links(hosted_rank *r, bool shares, err *e)
{
    const rank_links_use use = {r, links_lost};
    const rank_links_others *o = &r->others;
    rank_links *w = NULL;
    int rc = rank_links_begin(&w, o, &use, e);
    for (int b = 0; b < o->ranks && shares && !rc; b++)
        if (o->is[b] && !o->node[b][0]) rc = rank_links_share(w, o->rank, b, b, r->control, e);
    pthread_mutex_lock(&r->lock);
    r->links = w;
    const bool over = r->over;
    pthread_mutex_unlock(&r->lock);
    if (over && w) rank_links_fail(w, &r->why);
    return rc;
}

int hosted_begin_links(hosted_rank *r, err *e) { return begin_links(r, true, e); }

/* From now on this rank dials the others, and those may join. */
static int meet_others(hosted_rank *r, err *e)
{
    const meet_ask asked = {r->links, &r->others, r->token, r->host->self, peer_name(r->control)};
    meeting *m;
    int rc = meet_begin(&m, &asked, e);
    pthread_mutex_lock(&r->lock);
    r->meets = m;
    pthread_mutex_unlock(&r->lock);
    if (!rc) r->host->met(r->host->ctx);
    return rc;
}

int hosted_make_links(hosted_rank *r, const rank_links_shape *these, const char *mine, err *e)
{
    bool here[LINK_RANKS_MAX] = {false};
    const bool early = r->links;
    int rc = OK;
    here[r->rank] = true;
    if (!early) {
        rank_links_others_of(&r->others, these, r->rank, mine);
        rc = begin_links(r, false, e);
    }
    if (!rc) rc = rank_links_fill(r->links, these, here, e);
    return rc || early ? rc : meet_others(r, e);
}

int hosted_await_links(const hosted_rank *r, err *e) { return meet_await(r->meets, JOIN_SECONDS, e); }

/* In the same time wherever they differ. */
static bool is_same_token(const uint8_t *a, const uint8_t *b)
{
    uint8_t all = 0;
    for (int i = 0; i < LEASE_TOKEN; i++) all |= a[i] ^ b[i];
    return all == 0;
}

bool hosted_knows(const hosted_rank *r, const lease_join *j)
{
    return j->from < r->ranks && j->from != r->rank && is_same_token(j->token, r->token[j->from]);
}

int hosted_join(hosted_rank *r, const lease_join *j, peer *p, err *e)
{
    rank_links *w = hosted_links(r);
    return w ? rank_links_accept(w, r->rank, j->from, p, e) : err_set(e, ERR_UNAVAILABLE, "a rank joins too early");
}

/* ---- what takes long */

int hosted_put_off(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    hosted_rank *r = to;
    int rc = OK;
    (void)from;
    pthread_mutex_lock(&r->lock);
    if (r->pending_kind) rc = err_set(e, ERR_FORMAT, "a message of kind %u out of turn", h->kind);
    else if (!buf_add(&r->pending, payload, h->bytes)) rc = err_memory(e, "a message");
    if (!rc) r->pending_kind = h->kind;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static void carry_out(hosted_rank *r, uint16_t kind, span payload)
{
    err e = {0};
    buf more = {0};
    pthread_mutex_lock(&r->lock);
    r->carries = true;
    pthread_mutex_unlock(&r->lock);
    if (msg_find(kind)->on->answer(r, payload, &more, &e)) log_line(LOG_WARN, "%s: %s", peer_name(r->control), e.msg);
    const err why = e;
    if (answer_send(r->control, MSG_ANSWER, 0, &why, buf_span(&more), &e)) hosted_end(r, &e);
    pthread_mutex_lock(&r->lock);
    r->carries = false;
    pthread_mutex_unlock(&r->lock);
    buf_free(&more);
}

static void *carry_out_all(void *arg)
{
    hosted_rank *r = arg;
    buf own = {0};
    pthread_getcpuclockid(pthread_self(), &r->worker_time);
    carry_out(r, r->kind->first, (span){0});
    pthread_mutex_lock(&r->lock);
    while (!r->over) {
        const uint16_t kind = r->pending_kind;
        if (!kind) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        own = r->pending;
        r->pending = (buf){0};
        r->pending_kind = 0;
        pthread_mutex_unlock(&r->lock);
        carry_out(r, kind, buf_span(&own));
        buf_free(&own);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- from the first to the last */

void hosted_open(hosted_rank *r, const hosted_kind *kind, const rank_host *host, peer *control)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->kind = kind;
    r->host = host;
    r->control = control;
}

int hosted_begin(hosted_rank *r, err *e)
{
    int rc = r->links ? meet_others(r, e) : OK;
    if (rc) return rc;
    pthread_mutex_lock(&r->lock);
    if (!r->over) r->works = pthread_create(&r->worker, NULL, carry_out_all, r) == 0;
    const bool begun = r->works || r->over;
    pthread_mutex_unlock(&r->lock);
    return begun ? OK : err_set(e, ERR_MEMORY, "a thread could not be started");
}

void hosted_stop(hosted_rank *r)
{
    pthread_mutex_lock(&r->lock); /* hosted_begin may not be over: then hosted_close calls this again */
    const bool works = r->works;
    r->works = false;
    pthread_mutex_unlock(&r->lock);
    if (works) {
        peer_drop(r->control, &r->why); /* it may wait for that */
        pthread_join(r->worker, NULL);
    }
    if (r->kind->stop) r->kind->stop(r);
    pthread_mutex_lock(&r->lock);
    meeting *m = r->meets;
    r->meets = NULL;
    pthread_mutex_unlock(&r->lock);
    meet_close(m);
    if (r->links) rank_links_stop(r->links);
}

void hosted_close(hosted_rank *r)
{
    static const err closed = {.code = ERR_CANCELLED, .msg = "the lease has ended"};
    if (!r) return;
    hosted_end(r, &closed);
    hosted_stop(r);
    rank_links_close(r->links);
    if (r->kind->close) r->kind->close(r);
    quota_return(r->host->memory, &r->quota);
    quota_expect_less(r->host->memory);
    buf_free(&r->pending);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    mem_free(r);
}
