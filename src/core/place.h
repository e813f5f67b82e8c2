/* place.h - the memory plan: where each activation of a segment lies in the segment's arena; and where its stretches
 * end. */
#pragma once
#include "core/backend.h"

/* Gives every activation that the segment's ops write an offset (tensor.off, a multiple of 64) by liveness, and sets
 * s->act_bytes, s->n_stretch and s->ends. Buffers are sized by max_rows[tensor.axis]. Two tensors share memory only
 * when their lives do not overlap. An op with OPF_IN_PLACE writes over its first operand when nothing reads that
 * later. The result of a fusable run (core/fuse.h) lies apart from the inputs of the run if that does not make the
 * arena larger; results of ops that a backend does together always do, and none takes the memory of another of the run
 * but in place. s->in lie at the beginning; s->out and tensors that nothing reads live to the end. */
int arena_layout(segment *s, const int max_rows[AXIS_COUNT], err *e);
