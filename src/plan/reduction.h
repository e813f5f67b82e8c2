/* reduction.h - how the ranks of a group join, as a plan's choices say it. */
#pragma once
#include "plan/plan_choices.h"

typedef struct reduction {
    const wire_pair *codec; /* NULL: nothing is summed over ranks, rows are gathered: the bits of the uncut model */
    const coll_kind *kind;  /* NULL: by size (comm/coll_choose.h) */
    int64_t group;          /* elements under one scale */
} reduction;

/* ERR_USAGE: a --codec-group that nobody can use. */
int reduction_of(reduction *to, const plan_choices *c, err *e);

/* The sum of `rows` rows of `cols`: a job without memory. */
coll_job reduction_job(const reduction *r, int64_t rows, int64_t cols, int ranks);
