/* quantized_names.h - the section [tensors] of a file that has one tensor for each weight. */
#pragma once
#include "base/buf.h"
#include "models/model.h"

/* Appends its lines: "{i}.attn.q = dec.{i}.attn.q", and of layers that share weights "… = dec.{[0,0,2][i]}.attn.q". */
int quantized_names(const model *m, buf *out, err *e);
