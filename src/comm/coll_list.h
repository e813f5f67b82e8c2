/* coll_list.h - the algorithms. */
#pragma once
#include "comm/coll.h"

extern const coll_kind coll_gather;
