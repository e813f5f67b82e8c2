/* coll_two_step.c - two_step: each rank sends every other one the chunk that it owns, coded; the owner decodes and
 * adds them in order of ranks, its own one coded too, and sends the sum, coded, to all (Flash Communication, section
 * 3.2, algorithm 1). Two hops; a rank sends 2 (N - 1) / N of the tensor. Every rank has the same bits: those of
 * one_shot. */
#include "comm/coll_list.h"
#include "comm/coll_reduce.h"

#include <stddef.h>

static uint64_t two_step_bytes(const coll_job *j, int rank, int ranks)
{
    (void)rank;
    return coll_chunk_bytes(j, j->partial, coll_whole(j)) + coll_chunk_most(j, j->sum, ranks);
}

static int two_step_hops(int ranks) { return ranks > 1 ? 2 : 0; }

static coll_chunk chunk_of(const coll *c, int rank) { return coll_chunk_of(c->job, rank, c->link->ranks); }

/* Where the own part of a chunk lies, coded. */
static uint8_t *partial_at(const coll *c, int rank)
{
    return (uint8_t *)coll_own(c) + coll_chunk_bytes(c->job, c->job->partial, (coll_chunk){0, chunk_of(c, rank).from});
}

/* Codes and posts chunk by chunk, so that the first is on its way while the next is coded; the own one last. */
static int post_partials(coll *c, err *e)
{
    link_end *l = c->link;
    int rc = OK;
    for (int i = 1; i <= l->ranks && !rc; i++) {
        const int to = (l->rank + i) % l->ranks;
        const coll_chunk k = chunk_of(c, to);
        const uint64_t n = coll_chunk_bytes(c->job, c->job->partial, k);
        uint8_t *at = partial_at(c, to);
        coll_encode(c->job, c->job->partial, k, at);
        if (n && to != l->rank) rc = l->kind->post(l, to, coll_channel(c, 0), at, n, e);
    }
    return rc;
}

/* Adds what came for the own chunk, in order of ranks. */
static int sum_partials(coll *c, err *e)
{
    link_end *l = c->link;
    const coll_chunk own = chunk_of(c, l->rank);
    const uint64_t n = coll_chunk_bytes(c->job, c->job->partial, own);
    for (; c->came < (uint64_t)l->ranks && n; c->came++) {
        const int r = (int)c->came;
        const void *part = partial_at(c, r);
        int rc = r == l->rank ? OK : l->kind->take(l, r, coll_channel(c, 0), n, &part, e);
        if (rc || !part) return rc ? rc : COLL_WAITS;
        (r ? coll_add : coll_decode)(c->job, c->job->partial, own, part);
        if (r != l->rank) l->kind->release(l, r, coll_channel(c, 0));
    }
    c->came = 0;
    return COLL_DONE;
}

static int post_sum(coll *c, err *e)
{
    link_end *l = c->link;
    const coll_chunk own = chunk_of(c, l->rank);
    const uint64_t n = coll_chunk_bytes(c->job, c->job->sum, own);
    uint8_t *at = (uint8_t *)coll_own(c) + coll_chunk_bytes(c->job, c->job->partial, coll_whole(c->job));
    int rc = OK;
    coll_encode(c->job, c->job->sum, own, at);
    for (int i = 1; i < l->ranks && n && !rc; i++)
        rc = l->kind->post(l, (l->rank + i) % l->ranks, coll_channel(c, 1), at, n, e);
    coll_decode(c->job, c->job->sum, own, at);
    return rc;
}

static int take_sums(coll *c, err *e)
{
    link_end *l = c->link;
    bool all = true;
    for (int i = 1; i < l->ranks; i++) {
        const int r = (l->rank + l->ranks - i) % l->ranks;
        const coll_chunk k = chunk_of(c, r);
        const uint64_t n = coll_chunk_bytes(c->job, c->job->sum, k);
        const void *part = NULL;
        if (!n || c->came >> r & 1) continue;
        int rc = l->kind->take(l, r, coll_channel(c, 1), n, &part, e);
        if (rc) return rc;
        all = all && part;
        if (!part) continue;
        coll_decode(c->job, c->job->sum, k, part);
        l->kind->release(l, r, coll_channel(c, 1));
        c->came |= (uint64_t)1 << r;
    }
    return all ? COLL_DONE : COLL_WAITS;
}

static int two_step_advance(coll *c, err *e)
{
    static int (*const steps[])(coll * c, err * e) = {post_partials, sum_partials, post_sum, take_sums};
    for (; c->step < 4; c->step++) {
        int rc = steps[c->step](c, e);
        if (rc) return rc;
    }
    return COLL_DONE;
}

const coll_kind coll_two_step = {
    .name = "two_step", .reduces = true, .bytes = two_step_bytes, .hops = two_step_hops, .advance = two_step_advance};
