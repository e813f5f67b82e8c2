/* place.h - the memory plan: where each activation of a segment lies in the segment's arena. */
#pragma once
#include "core/backend.h"

/* Gives every activation that ops [s->op0, s->op1) write an offset (tensor.off, a multiple of 64) by liveness, and sets
 * s->act_bytes. Buffers are sized by max_rows[tensor.axis]. Two tensors share memory only when their lives do not
 * overlap. An op with OPF_IN_PLACE writes over its first operand when nothing reads that later. The result of a fusable
 * run (backend.joins) lies apart from the inputs of the run if that does not make the arena larger. s->in and s->memory
 * keep the offsets that the segment before gave them, so segments are placed in order. s->out, results of entries and
 * tensors that nothing reads (logits) live to the end. */
int place_segment(program *p, segment *s, const int max_rows[AXIS_COUNT], err *e);
