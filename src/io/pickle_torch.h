/* pickle_torch.h - the few globals that PyTorch state dicts need, and what they make: storages, tensors.
 *
 * This list is the whole of what a pickle may name. A tensor is checked against the size that its storage claims;
 * whether the file holds that storage is checked by the container (fmt_pickle.c), which fills torch_blob.offset. */
#pragma once
#include "base/map.h"
#include "io/pickle.h"
#include "tensor/dtype.h"

#include <stdbool.h>

/* The bytes of one storage key. */
typedef struct torch_blob {
    span key;
    uint32_t element;       /* bytes per element of its first mention */
    uint64_t count;         /* elements, by its first mention */
    bool placed;            /* the container found it: */
    uint64_t offset, bytes; /* in the file */
} torch_blob;

/* A typed view of a blob. */
typedef struct torch_storage {
    uint32_t blob;
    dtype type; /* DTYPE_U8 for untyped ones */
    bool untyped;
    uint64_t first, count; /* elements; first is not 0 for the views of very old files */
} torch_storage;

typedef struct torch_tensor {
    torch_storage storage;
    dtype type;
    uint64_t offset; /* elements of `type` from the start of the storage */
    shape dims;
    int64_t stride[SHAPE_MAX];
} torch_tensor;

/* Kinds of PV_OBJECT values. */
enum { TORCH_STORAGE, TORCH_TENSOR, TORCH_OPAQUE };

/* The storages that one pickle mentions. Keys lie in the file or in the pickle's memory: free this first. */
typedef struct torch_world {
    torch_blob *blob;
    size_t n, cap;
    map keys;
} torch_world;

void torch_host(torch_world *w, pickle_host *host);
void torch_world_free(torch_world *w);

/* The tensor that a value is; NULL when it is something else. */
const torch_tensor *torch_tensor_of(const pickle *p, pv v);

/* "torch.float16" for a dtype value; NULL for anything else. */
const char *torch_dtype_name(const pickle *p, pv v);

/* Whether elements lie in row-major order without gaps. */
bool torch_is_contiguous(const torch_tensor *t);
