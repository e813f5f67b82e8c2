/* pooling.h - how the rows of a text become one vector, by the files of sentence-transformers beside the weights
 * (modules.json and the folders it names), by a GGUF file's pooling_type, and by the command line. Both become names of
 * [config], `pooling` and `normalize`, and the formula `pooled` where the spec has none of its own. */
#pragma once
#include "io/ckpt.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct spec spec; /* models/spec.h */

/* A matrix behind the pooling, from a folder of its own beside the weights. */
typedef struct pooling_dense {
    const char *folder, *activation; /* "2_Dense"; as options of slots call it */
} pooling_dense;
enum { POOLING_DENSE_MAX = 8 };

typedef struct pooling {
    bool found;      /* there is a modules.json */
    const char *how; /* "cls", "mean", "last"; NULL: not said */
    bool pools;      /* and one of its modules pools */
    pooling_dense dense[POOLING_DENSE_MAX];
    int n_dense;
    bool normalize;                 /* the modules end in a Normalize; meaningful when found */
    int64_t max_tokens;             /* texts are cut to this many tokens; 0: not said */
    const char *prompt;             /* put in front of texts; NULL: none */
    const char *unsupported_module; /* a module that cannot be expressed here, or NULL */
} pooling;

/* Reads the files; texts belong to the checkpoint. A malformed file is an error. */
int pooling_read(pooling *out, ckpt *c, err *e);

/* Writes pooling and normalization into the spec, from the strongest source that has them: `how` and `normalize` ("on",
 * "off") of the command line (NULL: not given), the spec's own file, `p`, the family; else the mean, of unit length; of
 * decoders the last row. A decoder with a head stays as it is where command line, spec and files say nothing. */
int pooling_apply(spec *s, const pooling *p, const char *how, const char *normalize, err *e);
