/* on_join.c - JOIN: a rank on another node connects to the one here that the token is of. It waits where that has not
 * come yet, as its leader may be slower than the other rank. */
#include "net/node_state.h"
#include "net/question.h"

#include <math.h>

/* ERR_UNAVAILABLE: it waits, as the rank is not there, or has no links; ERR_BUSY: the ranks have another connection.
 * Under the lock. */
static int join_rank(visitor *g, err *e)
{
    hosted_rank *r = NULL;
    for (visitor *of = g->of->visitors; of && !r; of = of->next)
        if (of->rank && of->from < 0 && !of->gone && hosted_knows(of->rank, &g->join)) r = of->rank;
    if (r) g->until = INFINITY;
    int rc = r ? hosted_join(r, &g->join, g->p, e) : err_set(e, ERR_UNAVAILABLE, "it joins with a token of no lease");
    g->waits = rc == ERR_UNAVAILABLE;
    if (rc) return rc;
    g->from = g->join.from;
    g->rank = r;
    return OK;
}

static int begin_join(visitor *g, span payload, err *e)
{
    node *n = g->of;
    err why = {0};
    g->joins = true;
    int rc = lease_join_read(&g->join, payload, e);
    if (rc) return rc;
    pthread_mutex_lock(&n->lock);
    rc = g->closes ? err_set(&why, ERR_CANCELLED, "it is gone") : join_rank(g, &why);
    pthread_mutex_unlock(&n->lock);
    if (rc == ERR_UNAVAILABLE) return OK;
    if (rc && rc != ERR_BUSY) return err_copy(e, &why);
    return answer_send(g->p, MSG_ANSWER, 0, &why, (span){0}, e);
}

/* Who is let wait is none that asks: it may go (node.c, find_idle). */
static int admit_join(void *to, peer *from, const frame_head *h, uint8_t **room, err *e)
{
    (void)from, (void)h, (void)room, (void)e;
    atomic_store(&((visitor *)to)->asks, false);
    return OK;
}

static int take_join(void *to, peer *from, const frame_head *h, const uint8_t *payload, err *e)
{
    (void)from;
    return visitor_settle(to, begin_join(to, span_of(payload, h->bytes), e), e);
}

const msg_handler on_JOIN = {admit_join, take_join};

/* One that waits no longer, and what it is answered; held. NULL: there is none. */
static peer *join_next(node *n, err *why)
{
    peer *p = NULL;
    pthread_mutex_lock(&n->lock);
    for (visitor *g = n->visitors; g && !p; g = g->next) {
        *why = (err){0};
        if (!g->waits || g->gone || join_rank(g, why) == ERR_UNAVAILABLE) continue;
        p = g->p;
        peer_hold(p);
    }
    pthread_mutex_unlock(&n->lock);
    return p;
}

void join_waiting(void *ctx)
{
    err why;
    for (peer *p; (p = join_next(ctx, &why)); peer_let_go(p)) answer_send(p, MSG_ANSWER, 0, &why, (span){0}, NULL);
}
