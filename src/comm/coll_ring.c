/* coll_ring.c - ring: the usual all-reduce, as a baseline. A chunk goes around the ring: each rank decodes the sum so
 * far, adds its own part and codes the sum for the next one; the last one's sum goes around once more as it is. 2 (N -
 * 1) hops; a rank sends 2 (N - 1) / N of the tensor.
 *
 * Every rank has the same bits, as all decode what the last one coded. They are others than those of two_step: a sum
 * is rounded at each hop, and begins at the rank after the chunk's owner; so they depend on how rows fall on chunks. */
#include "comm/coll_list.h"
#include "comm/coll_reduce.h"

#include <stddef.h>
#include <string.h>

static uint64_t ring_bytes(const coll_job *j, int rank, int ranks)
{
    (void)rank;
    const uint64_t a = coll_chunk_most(j, j->partial, ranks), b = coll_chunk_most(j, j->sum, ranks);
    return 2 * (a > b ? a : b);
}

static int ring_hops(int ranks) { return 2 * (ranks - 1); }

/* A hop of this rank: what it sends, and what it gets. */
typedef struct ring_hop {
    wire_type type;
    coll_chunk out, in;
    uint64_t out_bytes, in_bytes;
    uint8_t *at;    /* what is sent */
    uint8_t *after; /* what the next hop will send */
    int next, before, channel, channel_after;
    bool first_sum, sums, last;
} ring_hop;

static ring_hop hop_of(const coll *c, int hop)
{
    const coll_job *j = c->job;
    const int n = c->link->ranks, rank = c->link->rank;
    const bool sums = hop >= n - 1; /* sums go around */
    const int out = (rank + 2 * n - hop) % n, in = (out + n - 1) % n;
    uint8_t *own = coll_own(c);
    ring_hop h = {.type = sums ? j->sum : j->partial,
                  .out = coll_chunk_of(j, out, n),
                  .in = coll_chunk_of(j, in, n),
                  .at = own + (uint64_t)(hop % 2) * (c->half / 2),
                  .after = own + (uint64_t)(1 - hop % 2) * (c->half / 2),
                  .next = (rank + 1) % n,
                  .before = (rank + n - 1) % n,
                  .channel = coll_channel(c, hop),
                  .channel_after = coll_channel(c, hop + 1),
                  .first_sum = hop == n - 1,
                  .sums = sums,
                  .last = hop == 2 * n - 3};
    h.out_bytes = coll_chunk_bytes(j, h.type, h.out);
    h.in_bytes = coll_chunk_bytes(j, h.type, h.in);
    return h;
}

static int hop_send(coll *c, const ring_hop *h, err *e)
{
    link_end *l = c->link;
    if (!h->out_bytes) return OK;
    if (!l->kind->taken(l, h->next, h->channel)) return COLL_WAITS;
    if (!h->sums || h->first_sum) coll_encode(c->job, h->type, h->out, h->at);
    if (h->first_sum) coll_decode(c->job, h->type, h->out, h->at);
    return l->kind->post(l, h->next, h->channel, h->at, h->out_bytes, e);
}

static int hop_receive(coll *c, const ring_hop *h, err *e)
{
    link_end *l = c->link;
    const void *part;
    if (!h->in_bytes) return OK;
    const bool goes_on = h->sums && !h->last;
    if (goes_on && !l->kind->taken(l, h->next, h->channel_after)) return COLL_WAITS;
    int rc = l->kind->take(l, h->before, h->channel, h->in_bytes, &part, e);
    if (rc || !part) return rc ? rc : COLL_WAITS;
    (h->sums ? coll_decode : coll_add)(c->job, h->type, h->in, part);
    if (goes_on) memcpy(h->after, part, h->in_bytes);
    l->kind->release(l, h->before, h->channel);
    return OK;
}

static int ring_advance(coll *c, err *e)
{
    for (; c->step < 2 * ring_hops(c->link->ranks); c->step++) {
        const ring_hop h = hop_of(c, c->step / 2);
        int rc = (c->step % 2 ? hop_receive : hop_send)(c, &h, e);
        if (rc) return rc;
    }
    return COLL_DONE;
}

const coll_kind coll_ring = {
    .name = "ring", .reduces = true, .bytes = ring_bytes, .hops = ring_hops, .advance = ring_advance};
