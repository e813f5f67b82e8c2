/* coll_gather.c - gather: every rank posts its part for all others that take it, and hands on each part that arrives,
 * straight from where the link holds it. One hop; a rank sends its part N - 1 times. */
#include "comm/coll_list.h"

#include <stddef.h>

static uint64_t gather_bytes(const coll_job *j, int rank, int ranks)
{
    (void)ranks;
    return j->bytes[rank];
}

static int gather_hops(int ranks) { return ranks > 1; }

static bool takes(const coll_job *j, int rank) { return !j->takes || j->takes[rank]; }

/* Posts the own part, from the next rank on, so that not all send to the same one first. */
static int post_own(coll *c, err *e)
{
    link_end *l = c->link;
    const uint64_t n = c->job->bytes[l->rank];
    int rc = OK;
    for (int i = 1; i < l->ranks && n && !rc; i++) {
        const int to = (l->rank + i) % l->ranks;
        if (takes(c->job, to)) rc = l->kind->post(l, to, coll_channel(c, 0), coll_own(c), n, e);
    }
    return rc || !n || !takes(c->job, l->rank) ? rc : c->job->put(c->job->self, l->rank, coll_own(c), e);
}

static int gather_advance(coll *c, err *e)
{
    const coll_job *j = c->job;
    link_end *l = c->link;
    int rc = OK;
    bool all = true;
    if (c->step == 0) rc = post_own(c, e);
    c->step = 1;
    for (int i = 1; i < l->ranks && !rc; i++) {
        const int r = (l->rank + l->ranks - i) % l->ranks;
        const void *part = NULL;
        if (!takes(j, l->rank) || !j->bytes[r] || c->came >> r & 1) continue;
        rc = l->kind->take(l, r, coll_channel(c, 0), j->bytes[r], &part, e);
        all = all && part;
        if (rc || !part) continue;
        rc = j->put(j->self, r, part, e);
        l->kind->release(l, r, coll_channel(c, 0));
        c->came |= (uint64_t)1 << r;
    }
    return rc ? rc : all ? COLL_DONE : COLL_WAITS;
}

const coll_kind coll_gather = {.name = "gather", .bytes = gather_bytes, .hops = gather_hops, .advance = gather_advance};
