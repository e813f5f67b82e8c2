/* embed_flags.h - the flags that say how a text becomes one vector, for the commands that make vectors. */
#pragma once
#include "app/app.h"
#include "engine/engine.h"

typedef struct embed_flags {
    const char *pooling;
    bool normalize;
} embed_flags;

extern const param embed_param_rows[];
extern const size_t embed_param_count;

/* Hands the flags that were given to the engine. "none" is the caller's business. */
void embed_flags_apply(const invocation *v, const embed_flags *f, engine_options *o);
