/* gguf_pairs.h - the metadata of a GGUF file that is being written: a growing list of keys and values. */
#pragma once
#include "base/arena.h"
#include "base/span.h"
#include "io/gguf.h"

#include <stdbool.h>
#include <stddef.h>

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
