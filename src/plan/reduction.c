/* reduction.c - see reduction.h. */
#include "plan/reduction.h"

#include "comm/coll_choose.h"

#include <inttypes.h>
#include <string.h>

int reduction_parse(reduction *to, const char *codec, const char *algorithm, int64_t group, err *e)
{
    *to = (reduction){.group = group ? group : WIRE_GROUP};
    if (to->group < WIRE_GROUP_MIN || to->group > WIRE_GROUP_MAX)
        return err_set(e, ERR_USAGE, "--codec-group %" PRId64 ": between %d and %d", group, WIRE_GROUP_MIN,
                       WIRE_GROUP_MAX);
    if (algorithm && strcmp(algorithm, "auto")) to->kind = coll_named(span_str(algorithm));
    if (algorithm && strcmp(algorithm, "auto") && (!to->kind || !to->kind->reduces))
        return err_set(e, ERR_USAGE, "--collective %s: there are auto, two_step, one_shot, ring", algorithm);
    if (!codec || !strcmp(codec, "exact")) return OK;
    to->codec = coll_codec_named(span_str(codec));
    if (!to->codec) return err_set(e, ERR_USAGE, "--reduce %s: there are exact, f32, f16, int8, int6, int4", codec);
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
