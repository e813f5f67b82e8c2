/* cut_sums.h - sums over the ranks, in programs of a group that reduces.
 *
 * A matrix whose input is cut takes the columns of its weight that belong to it, and each rank has a partial sum of
 * all output rows. While the ops that follow are linear the all-reduce is deferred: such a tensor is partial sums,
 * one a rank, plus replicated rows (the residual stream, which so never passes a codec), plus biases. Sums,
 * selections of rows and products with replicated tensors keep that form, so parallel branches (x + attn + ffn,
 * shared experts) need one all-reduce. What reads the tensor otherwise gets it whole: a COLL reduces it, then whole
 * rows and vectors are added.
 *
 * A matrix is done so where the borders of its input suit the columns of its weight on all ranks
 * (weight_column_grain); cut_borders.h wishes for that. Else its input is gathered, as where nothing is reduced:
 * right either way. So is the input of matrices after which only a few rows go on (heads, poolers): what they give is
 * shown to the caller. */
#pragma once
#include "plan/cut_state.h"

/* Whether o is a matrix that multiplies columns where they lie; the op then. */
bool cut_multiplies_columns(const cut *c, const op *o);
int cut_add_partial(cut *c, const op *o, err *e);

/* Whether o, some operand of which is a sum, keeps it one; the op then. */
bool cut_keeps_sum(const cut *c, const op *o);
int cut_add_linear(cut *c, const op *o, err *e);

/* Makes whole rows of sum t. */
int cut_make_sum(cut *c, ref t, int16_t layer, err *e);
/* Makes the sums that other groups or the caller read. */
int cut_make_outer_sums(cut *c, err *e);
