/* cuda_unpack.h - kernels travel in the executable packed by gzip, to a quarter of their size: a computer without a GPU
 * carries them along too. */
#pragma once
#include "base/err.h"
#include "base/span.h"

/* Unpacks an image that the executable holds. *out: for the caller to free, with a NUL byte behind its last. Errors:
 * ERR_MEMORY, ERR_FORMAT. */
int cuda_unpack(span packed, char **out, err *e);
