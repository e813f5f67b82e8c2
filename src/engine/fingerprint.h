/* fingerprint.h - what the bits of an answer depend on, besides the request: which model, and by which arithmetic.
 *
 * Where both are equal, the same request with the same seed gives the same tokens, on any processor. */
#pragma once
#include "engine/engine.h"

typedef struct fingerprint {
    char model[33];      /* digits of SHA-256 over what the program is and what its tensors hold */
    char kv[16];         /* type of the cache, "i16": one of those below */
    char arithmetic[17]; /* the same over ARITHMETIC, types of cache and activations, and what rounds between devices */
    bool exact;          /* a seed gives the same text on any processor: --exact on, --draft-accept same */
} fingerprint;

/* Reads the whole checkpoint the first time; its digest is remembered by file (io/contents_cache.h). */
int engine_fingerprint(engine *g, fingerprint *out, err *e);
/* Its first part: the digest is kept, and tells later whether files that were damaged are whole again. */
int engine_hash_weights(engine *g, err *e);
