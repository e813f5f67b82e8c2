/* model_rig.h - a model of a random program, for an engine without files. */
#pragma once
#include "models/model.h"
#include "random_model.h"

/* An end for engine_of_model. */
static inline void rig_model_drop(model *m)
{
    program_free(m->prog);
    mem_free(m);
}

static inline model *rig_model(const model_shape *of, uint64_t seed, int ctx)
{
    model *m = mem_zero(1, sizeof *m);
    m->prog = random_model(of, seed);
    m->name = m->arch = "random";
    m->ctx = ctx;
    m->bos = -1;
    return m;
}
