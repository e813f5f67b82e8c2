/* npy.h - writes a float32 matrix as NumPy format 1.0 (C order, little-endian), row by row.
 *
 * Layout: "\x93NUMPY" 1 0, length of the header as 2 bytes, a Python dict as text, padded with spaces and a newline to
 * a multiple of 64, the values. The file appears under its name only when it is complete. */
#pragma once
#include "base/err.h"

#include <stdint.h>

typedef struct npy npy;

int npy_create(npy **out, const char *path, int64_t rows, int64_t cols, err *e);
int npy_write(npy *n, const float *values, int64_t rows, err *e);
int npy_commit(npy *n, err *e); /* frees n; ERR_FORMAT when rows are missing */
void npy_abandon(npy *n);       /* NULL ok */
