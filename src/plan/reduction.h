/* reduction.h - how the ranks of a group join, and what passes between groups, as options say it. */
#pragma once
#include "comm/coll.h"

typedef struct reduction {
    const wire_pair *codec; /* NULL: nothing is summed over ranks, rows are gathered: the bits of the uncut model */
    const coll_kind *kind;  /* NULL: by size (comm/coll_choose.h) */
    int64_t group;          /* elements under one scale */
} reduction;

/* codec: "exact" (NULL too) or a name of wire_pairs; algorithm: "auto" (NULL too) or one of coll_list.h; group: 0: as
 * usual. ERR_USAGE. */
int reduction_parse(reduction *to, const char *codec, const char *algorithm, int64_t group, err *e);

/* name: f32 (NULL too), f16, int8 or int4. ERR_USAGE. */
int wire_parse(wire_type *to, const char *name, err *e);

/* The sum of `rows` rows of `cols`: a job without memory. */
coll_job reduction_job(const reduction *r, int64_t rows, int64_t cols, int ranks);
