/* write.h - the tensors of a checkpoint that is being written, and their bytes row by row.
 *
 * The caller describes the tensors (type and shape in the file) and delivers their rows as float32, or bytes that are
 * encoded already. Only a few megabytes are held in memory. The same input gives the same bytes. */
#pragma once
#include "base/err.h"
#include "base/file.h"
#include "tensor/dtype.h"
#include "tensor/quant_fit.h"

#include <stdint.h>

typedef struct write_tensor {
    const char *name;
    dtype type;
    shape dims;
    const void *raw; /* the tensor's bytes in `type`; NULL: `row` gives them */
    /* Writes row n (of all leading dimensions together; dims.dim[rank-1] floats) to `to`. The type must be one that
     * quant_can_encode, unless all rows are raw. */
    int (*row)(void *self, uint64_t n, float *to, err *e);
    /* The bytes of row n if it is encoded in `type` already, else NULL; or no function. They may be put together in
     * `room`, which has place for them. */
    const void *(*raw_row)(void *self, uint64_t n, dtype type, uint8_t *room);
    void *self;
    /* Writes all bytes of the tensor itself; or no function. */
    int (*stream)(void *self, file_out *f, err *e);
    fit_importance importance; /* for encoding; rows count over all leading dimensions */
    bool aligned;              /* safetensors: begins and ends at a multiple of 64, as packed panels must */
} write_tensor;

/* Bytes that a tensor takes; false when type and shape do not fit. */
bool write_tensor_bytes(const write_tensor *t, uint64_t *bytes);

/* Writes the bytes of one tensor: for the writers of formats. */
int write_rows(file_out *f, const write_tensor *t, int threads, err *e);
