/* lower_int8.h - the pass that lets a device multiply by int8: after the cut, before fusing and placing. */
#pragma once
#include "core/program.h"
#include "tensor/panel.h"

/* A slice of p (program_slice) with the ops [op0, op1), in which every matrix whose type `takes` allows is packed, and
 * multiplies int8 activations that a QUANT op before it makes, once for all matrices that read the same rows. Inputs of
 * at most ACT_NARROW columns are multiplied twice, by their codes and by the residual of these. What is narrow and what
 * is packed is told by the uncut row and the uncut matrix (tensor.whole, weight.of), so that bits are the same however
 * a model is cut. A gather that may carry codes (op.u.coll.codes) does. Results keep the tensors of p. `takes` NULL:
 * nothing is lowered. NULL on error. */
program *lower_int8(const program *p, uint32_t op0, uint32_t op1, bool (*takes)(dtype type), err *e);

/* The panel format of the op's matrix after lowering; its `act` is the block of activations that it multiplies. NULL:
 * the matrix stays as it is. */
const panel_format *lower_format(const program *p, const op *o, bool (*takes)(dtype type));
