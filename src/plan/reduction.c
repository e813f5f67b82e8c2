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

int wire_parse(wire_type *to, const char *name, err *e)
{
    static const wire_type types[] = {WIRE_F32, WIRE_F16, WIRE_INT8, WIRE_INT4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        *to = types[i];
        if (!strcmp(name ? name : "f32", wire_infos[*to].name)) return OK;
    }
    return err_set(e, ERR_USAGE, "--wire %s: there are f32, f16, int8, int4", name);
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
