/* coll_choose.h - algorithms and codecs by name, and which algorithm does a reduction. Bits do not depend on it (but
 * for ring, a baseline). */
#pragma once
#include "base/span.h"
#include "comm/coll.h"

/* What has this name; NULL: there is none. */
const coll_kind *coll_named(span name);
const wire_pair *coll_codec_named(span name);

/* The faster one for a job, whose kind need not be set; all ranks come to the same. one_shot sends more bytes and saves
 * a hop: it is taken while a rank sends at most COLL_SMALL bytes by it, which take about as long as a hop between
 * machines (0.3 ms at 1 Gbit/s); else two_step. */
enum { COLL_SMALL = 32 << 10 };
const coll_kind *coll_choose(const coll_job *j, int ranks);
