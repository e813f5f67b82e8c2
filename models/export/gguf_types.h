/* gguf_types.h - types that matrices can have in a GGUF file. */
#pragma once
#include "tensor/dtype.h"

/* The type for a matrix with rows of `cols`: `want`, or the nearest whose blocks divide them. */
dtype gguf_type_fitting(dtype want, int64_t cols);
