/* coll_list.h - the algorithms. */
#pragma once
#include "comm/coll.h"

/* X(id, word, kind): those that reduce, as --collective has them. */
#define COLL_REDUCE_LIST(X)                                                                                            \
    X(TWO_STEP, "two_step", coll_two_step)                                                                             \
    X(ONE_SHOT, "one_shot", coll_one_shot)                                                                             \
    X(RING, "ring", coll_ring)

extern const coll_kind coll_gather;
#define X(id, word, kind) extern const coll_kind kind;
COLL_REDUCE_LIST(X)
#undef X
