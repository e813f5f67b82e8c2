/* coll_one_shot.c - one_shot: every rank sends all it has, coded, to all others; each adds in order of ranks, and codes
 * and decodes the sum. One hop; a rank sends N - 1 tensors: for small ones on links with delay. The bits are those of
 * two_step. */
#include "comm/coll_list.h"
#include "comm/coll_reduce.h"

#include <stddef.h>

static uint64_t one_shot_bytes(const coll_job *j, int rank, int ranks)
{
    (void)rank, (void)ranks;
    return coll_chunk_bytes(j, j->partial, coll_whole(j)) + (uint64_t)wire_bytes(j->sum, j->group, j->cols);
}

static int one_shot_hops(int ranks) { return ranks > 1; }

static int post_all(coll *c, uint64_t n, err *e)
{
    link_end *l = c->link;
    int rc = OK;
    coll_encode(c->job, c->job->partial, coll_whole(c->job), coll_own(c));
    for (int i = 1; i < l->ranks && n && !rc; i++)
        rc = l->kind->post(l, (l->rank + i) % l->ranks, coll_channel(c, 0), coll_own(c), n, e);
    return rc;
}

/* What coding does to the sum, row by row. */
static void round_sum(const coll *c, uint8_t *space)
{
    const coll_job *j = c->job;
    for (int64_t i = 0; i < j->rows; i++) {
        j->wire->encode(j->sum, j->group, j->x + i * j->cols, j->cols, space);
        j->wire->decode(j->sum, j->group, space, j->cols, j->x + i * j->cols);
    }
}

static int one_shot_advance(coll *c, err *e)
{
    link_end *l = c->link;
    const coll_chunk all = coll_whole(c->job);
    const uint64_t n = coll_chunk_bytes(c->job, c->job->partial, all);
    int rc = OK;
    if (c->step == 0) rc = post_all(c, n, e);
    c->step = 1;
    for (; c->came < (uint64_t)l->ranks && n && !rc; c->came++) {
        const int r = (int)c->came;
        const void *part = coll_own(c);
        if (r != l->rank) rc = l->kind->take(l, r, coll_channel(c, 0), n, &part, e);
        if (rc || !part) return rc ? rc : COLL_WAITS;
        (r ? coll_add : coll_decode)(c->job, c->job->partial, all, part);
        if (r != l->rank) l->kind->release(l, r, coll_channel(c, 0));
    }
    if (!rc) round_sum(c, (uint8_t *)coll_own(c) + n);
    return rc;
}

const coll_kind coll_one_shot = {
    .name = "one_shot", .reduces = true, .bytes = one_shot_bytes, .hops = one_shot_hops, .advance = one_shot_advance};
