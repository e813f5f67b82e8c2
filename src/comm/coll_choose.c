/* coll_choose.c - see coll_choose.h. */
#include "comm/coll_choose.h"
#include "comm/coll_list.h"
#include "comm/coll_reduce.h"

const coll_kind *coll_named(span name)
{
#define X(id, word, kind) &kind,
    static const coll_kind *const all[] = {&coll_gather, COLL_REDUCE_LIST(X)};
#undef X
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (span_is(name, all[i]->name)) return all[i];
    return NULL;
}

const wire_pair *coll_codec_named(span name)
{
    const wire_pair *w = wire_pairs;
    while (w->name && !span_is(name, w->name)) w++;
    return w->name ? w : NULL;
}

const coll_kind *coll_choose(const coll_job *j, int ranks)
{
    const uint64_t one = coll_chunk_bytes(j, j->partial, coll_whole(j));
    return one * (uint64_t)(ranks - 1) <= COLL_SMALL ? &coll_one_shot : &coll_two_step;
}
