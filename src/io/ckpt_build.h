/* ckpt_build.h - what a checkpoint format implements, and the calls it lists its tensors with.
 *
 * ckpt.c calls the formats of format_list.h and these call it back: hence a header of their own for its functions.
 * A format probes and lists; it checks its own framing. What every format would have to check is checked in ckpt_add:
 * names, shapes, byte counts, bounds, duplicates; and after listing, overlaps. */
#pragma once
#include "io/ckpt.h"

typedef struct ckpt_reader {
    const char *name;
    /* How surely these bytes (a whole file, mapped: look at little of it) are of this format: 0 no .. 100 certain. */
    int (*probe)(span file);
    int (*list)(ckpt *c, uint32_t file, err *e);
    /* Prefix of its keys and tensor names in specs ("gguf"). NULL: they are those of Hugging Face, and a config.json
     * beside the file describes the model. */
    const char *source;
    const char *arch, *arch_key; /* with a source: its one architecture, or the key that names it and prefixes others */
    bool has_factors;            /* X.scale and X.input_scale are factors of X.weight */
    bool may_share;    /* tensors may share bytes (tied weights of a pickle); elsewhere an overlap is an error */
    bool may_be_empty; /* files without tensors are of use: a GGUF vocabulary */
} ckpt_reader;

/* Longest tensor name that is accepted; the most tensors of one checkpoint. */
enum { CKPT_NAME_MAX = 1024, CKPT_TENSORS_MAX = 1 << 20 };

uint32_t ckpt_file_count(const ckpt *c);
span ckpt_file_bytes(const ckpt *c, uint32_t file);
bool ckpt_file_id(const ckpt *c, uint32_t file, file_id *out); /* false: bytes in memory */

/* Bytes of a tensor; false when its shape does not fit its type. packed: panels. */
bool ckpt_tensor_bytes(dtype type, bool packed, const shape *dims, uint64_t *need);
/* One tensor at [offset, offset + bytes) of a file. `bytes` must be exactly what type and shape need. */
int ckpt_add(ckpt *c, uint32_t file, span name, dtype type, const shape *dims, uint64_t offset, uint64_t bytes, err *e);
/* The same of panels: dims are rows and columns of the matrix, in front of them the number of a stack. */
int ckpt_add_packed(ckpt *c, uint32_t file, span name, dtype type, const shape *dims, uint64_t offset, uint64_t bytes,
                    err *e);
/* One tensor that the format writes itself: *data has room for type and shape, zeroed. All such tensors together may
 * take at most 8 times the bytes of the files plus 64 MiB. */
int ckpt_add_rewritten(ckpt *c, uint32_t file, span name, dtype type, const shape *dims, uint8_t **data, err *e);
/* Another file of the same checkpoint (a split GGUF): a plain name in the folder of file 0. The caller lists it. */
int ckpt_add_file(ckpt *c, const char *name, uint32_t *file, err *e);

/* A checkpoint whose tensors somebody else listed: they lie in the file at `path`, and are called as in a format
 * (ckpt_format). The caller adds them to file 0, and finishes or closes it; it has no files beside it. */
int ckpt_begin_listed(ckpt **out, const char *path, const char *name, const char *format, err *e);
int ckpt_finish_listed(ckpt *c, err *e);

/* These take ownership, also when they fail. A second config or metadata object is dropped: the first file speaks. */
void ckpt_set_config(ckpt *c, json *config);
void ckpt_set_metadata(ckpt *c, json *metadata);
/* A key-value in the file's own types; only those of the first file are kept. */
int ckpt_add_meta(ckpt *c, span key, const ckpt_array *a, bool scalar, err *e);
