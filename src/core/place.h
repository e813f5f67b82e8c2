/* place.h - the memory plan: where each activation of a segment lies in the segment's arena. */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H
#include "core/backend.h"

/* Gives every activation that ops [s->op0, s->op1) write an offset (tensor.off, a multiple of 64) by liveness, and sets
 * s->act_bytes. Buffers are sized by max_rows[tensor.rows]. Two tensors share memory only when the lives of both do not
 * overlap; elementwise ops write over their first operand when it dies with them; the result of ops that the backend joins lies apart from
 * what they read if there is room for it below the highest byte used until then. The tensors s->in and s->memory keep the
 * offsets that the segment before gave them, so segments are placed in order. Tensors that nothing reads in the whole program (the logits), s->out and
 * entry outputs live to the end. */
int place_segment(program *p, segment *s, const int max_rows[AXIS_COUNT], err *e);

#endif
