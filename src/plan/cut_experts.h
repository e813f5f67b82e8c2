/* cut_experts.h - whole experts on one rank each (--experts whole), in programs of a group that reduces.
 *
 * A rank's DISPATCH knows the experts that it has; rows of others come last, and nobody computes them. All that follows
 * is done by each rank on rows of its own experts, up to SCATTER, which adds up what is here: a part of a sum
 * (cut_sums.h). Against experts cut by columns: no border inside a matrix, but ranks have as much to do as rows happen
 * to need their experts. */
#pragma once
#include "plan/cut_state.h"

/* Whether ranks do o each for its own experts; the op then. Its other operands are whole. */
bool cut_goes_by_experts(const cut *c, const op *o);
int cut_add_by_experts(cut *c, const op *o, err *e);
