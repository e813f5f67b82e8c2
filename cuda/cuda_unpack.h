/* cuda_unpack.h - kernels travel in the executable packed by xz, to a tenth of their size: a computer without a GPU
 * carries them along too. Kernels of one image are much alike and lie further apart than gzip looks back, so it makes
 * three times as many bytes; to unpack takes as long. */
#pragma once
#include "base/err.h"
#include "base/span.h"

/* Unpacks an image that the executable holds. *out: for the caller to free, with a NUL byte behind its last. Errors:
 * ERR_MEMORY, ERR_FORMAT. */
int cuda_unpack(span packed, char **out, err *e);
