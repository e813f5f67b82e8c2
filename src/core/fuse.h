/* fuse.h - where the rows of a backend's fuse table fit: runs of ops, one after the other, that it does in one pass.
 * The unfused run is the definition: the result of the last op has the same bits; those of the others are not
 * written. */
#pragma once
#include "core/backend.h"

/* The row of s->be->fuse whose run begins at op `at` of a placed segment, -1: none. Only the run may read the unwritten
 * results, the kernel must take the shapes, and the result must not overlap operands that the run still reads. */
int fuse_find(const segment *s, const int max_rows[AXIS_COUNT], uint32_t at);

/* Length of such a run before activations are placed; 1: none begins there. */
uint32_t fuse_length(const segment *s, uint32_t at);

/* Whether two activations of a placed segment share memory, each with max_rows rows. */
bool fuse_overlap(const program *p, const int max_rows[AXIS_COUNT], ref a, ref b);
