/* gguf.h - the value types of GGUF files, for reader and writer; elements of their arrays. */
#pragma once
#include "io/ckpt.h"

/* X(id, value in the file, bytes, kind); strings and arrays have no fixed size. */
#define GGUF_TYPES(X)                                                                                                  \
    X(U8, 0, 1, META_INT)                                                                                              \
    X(I8, 1, 1, META_INT)                                                                                              \
    X(U16, 2, 2, META_INT)                                                                                             \
    X(I16, 3, 2, META_INT)                                                                                             \
    X(U32, 4, 4, META_INT)                                                                                             \
    X(I32, 5, 4, META_INT)                                                                                             \
    X(F32, 6, 4, META_FLOAT)                                                                                           \
    X(BOOL, 7, 1, META_BOOL)                                                                                           \
    X(STRING, 8, 0, META_STRING)                                                                                       \
    X(ARRAY, 9, 0, META_NONE)                                                                                          \
    X(U64, 10, 8, META_INT)                                                                                            \
    X(I64, 11, 8, META_INT)                                                                                            \
    X(F64, 12, 8, META_FLOAT)

typedef enum gguf_type {
#define X(id, value, bytes, kind) GGUF_##id = value,
    GGUF_TYPES(X)
#undef X
        GGUF_TYPE_COUNT
} gguf_type;

enum { GGUF_VERSION = 3, GGUF_ALIGNMENT = 32, GGUF_DIMS_MAX = 4, GGUF_ARRAY_IN_CONFIG_MAX = 1024 };

/* Walks strings in order: *at starts at 0 (a byte offset). Past the end: an empty span. */
span ckpt_array_string(const ckpt_array *a, uint64_t *at);
/* Element i of a META_INT or META_BOOL array, of a META_FLOAT array; 0 where there is none. */
int64_t ckpt_array_int(const ckpt_array *a, uint64_t i);
double ckpt_array_float(const ckpt_array *a, uint64_t i);
