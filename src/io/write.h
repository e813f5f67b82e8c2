/* write.h - checkpoints out: safetensors and GGUF, streamed row by row into a temporary file that is renamed when all is written.
 *
 * The caller describes the tensors (type and shape as they shall be written) and delivers their rows as float32, or names bytes that
 * are already what shall be written. Nothing but a few megabytes is held in memory. The same input gives the same bytes. */
#ifndef IO_WRITE_H
#define IO_WRITE_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "io/gguf.h"
#include "tensor/dtype.h"
#include "tensor/quant_fit.h"

#include <stddef.h>
#include <stdint.h>

typedef struct write_tensor {
    const char *name;
    dtype type;
    shape dims;
    const void *raw; /* the bytes of the tensor in `type`, or NULL: then `row` gives them */
    /* Writes row n (of all leading dimensions together; dims.dim[rank-1] floats) to `to`. Types that quant_can_encode, unless all rows are raw. */
    int (*row)(void *self, uint64_t n, float *to, err *e);
    /* The bytes of row n where they are there already in `type`, else NULL; or no function. */
    const void *(*raw_row)(void *self, uint64_t n, dtype type);
    void *self;
    /* Writes all bytes of the tensor itself; or no function. */
    int (*stream)(void *self, file_out *f, err *e);
    fit_importance importance; /* for encoding; rows count over all leading dimensions */
    bool aligned;              /* safetensors: begins at a multiple of 64, and so do its bytes end: packed panels */
} write_tensor;

/* Bytes that a tensor takes; false when type and shape do not fit. */
bool write_tensor_bytes(const write_tensor *t, uint64_t *bytes);

/* Tensors are ordered as the reference writer does, wide types first, then by name; in front of them, as they come, the aligned ones. `metadata`: an object of strings for
 * "__metadata__", or NULL. Block types have no name in this format: ERR_USAGE. */
int write_safetensors(const char *path, const write_tensor *t, size_t n, const json *metadata, err *e);

/* A key-value of GGUF. Arrays: `data` holds the packed elements, strings as a 64-bit length and bytes each. */
typedef struct gguf_pair {
    const char *key;
    gguf_type type; /* GGUF_ARRAY: of `element` */
    gguf_type element;
    uint64_t count; /* elements of an array */
    span data;      /* little-endian bytes of the value; of a string its text */
} gguf_pair;

/* A growing list of pairs that owns keys and values. {0} is a valid empty list; errors are kept until write_gguf. */
typedef struct gguf_pairs {
    arena mem;
    gguf_pair *pair;
    size_t n, cap;
    bool bad; /* memory was short */
} gguf_pairs;

void gguf_add_value(gguf_pairs *p, const char *key, gguf_type type, span bytes); /* any scalar, as in a file */
void gguf_add_text(gguf_pairs *p, const char *key, const char *s);
void gguf_add_uint(gguf_pairs *p, const char *key, gguf_type type, uint64_t v); /* integers and GGUF_BOOL */
void gguf_add_float(gguf_pairs *p, const char *key, float v);
void gguf_add_array(gguf_pairs *p, const char *key, gguf_type element, uint64_t count, span packed);
/* Appends copies of the pairs of another list; a key that is there already stays as it is. */
void gguf_add_all(gguf_pairs *p, const gguf_pairs *from);
void gguf_pairs_free(gguf_pairs *p);

/* general.* come first, the others in the order in which they were added; general.alignment must not be among them. Tensors lie in
 * the order given, each at the next multiple of 32, as ggml demands. */
/* Everything before the data, padded: with n = 0 a whole file. */
int write_gguf_header(buf *out, const gguf_pairs *pairs, const write_tensor *t, size_t n, err *e);
/* threads: that encode, 0 = all this process may use */
int write_gguf(const char *path, const gguf_pairs *pairs, const write_tensor *t, size_t n, int threads, err *e);

#endif
