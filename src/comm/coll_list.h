/* coll_list.h - the algorithms. */
#pragma once
#include "comm/coll.h"

extern const coll_kind coll_gather;
extern const coll_kind coll_two_step;
extern const coll_kind coll_one_shot;
extern const coll_kind coll_ring;

#define COLL_LIST &coll_gather, &coll_two_step, &coll_one_shot, &coll_ring
