/* reduction.c - see reduction.h. */
#include "plan/reduction.h"

#include "comm/coll_choose.h"

#include <inttypes.h>

int reduction_of(reduction *to, const plan_choices *c, err *e)
{
#define X(id, word, kind) [COLLECTIVE_##id] = &kind,
    static const coll_kind *const kinds[COLLECTIVE_COUNT] = {COLL_REDUCE_LIST(X)};
#undef X
    *to = (reduction){.group = c->codec_group ? c->codec_group : WIRE_GROUP, .kind = kinds[c->collective]};
    if (to->group < WIRE_GROUP_MIN || to->group > WIRE_GROUP_MAX)
        return err_set(e, ERR_USAGE, "--codec-group %" PRId64 ": between %d and %d", to->group, WIRE_GROUP_MIN,
                       WIRE_GROUP_MAX);
    if (c->reduce != REDUCE_EXACT) to->codec = coll_codec_named(span_str(reduce_words[c->reduce]));
    return OK;
}

coll_job reduction_job(const reduction *r, int64_t rows, int64_t cols, int ranks)
{
    coll_job j = {.kind = r->kind,
                  .rows = rows,
                  .cols = cols,
                  .partial = r->codec->partial,
                  .sum = r->codec->sum,
                  .group = r->group};
    if (!j.kind) j.kind = coll_choose(&j, ranks);
    return j;
}
