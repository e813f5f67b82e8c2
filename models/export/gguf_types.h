/* gguf_types.h - types that matrices can have in a GGUF file. */
#ifndef MODELS_GGUF_TYPES_H
#define MODELS_GGUF_TYPES_H
#include "tensor/dtype.h"

/* The type of GGUF for a matrix with rows of `cols` that shall be of another: where those are no whole blocks, the
 * nearest with smaller blocks. */
dtype gguf_type_fitting(dtype want, int64_t cols);

#endif
