/* build.h - a spec, its hyper-parameters and a checkpoint become a program. */
#pragma once
#include "core/program.h"
#include "io/ckpt.h"
#include "models/spec/config_eval.h"
#include "models/compile/weight_policy.h"

typedef struct build_options {
    weight_policy *policy; /* types to hold matrices in; NULL: as in the file */
    int ctx;               /* positions that tables are made for */
    bool act_f32;          /* products are of floats: the factor beside a matrix goes into its values */
    bool written;          /* the weights are for an export: columns stay in the model's order */
} build_options;

/* All layers, with every tensor bound and checked. Tensors of the checkpoint that nothing uses are errors. */
int build_program(program **out, spec *s, config_eval *values, const ckpt *c, const build_options *o, err *e);

/* A whole number of [network], or of [config] under the same name: "layers", "dim"; `otherwise` without value. */
int build_number(spec *s, config_eval *values, const char *key, int64_t otherwise, int64_t *out, err *e);

/* The hyper-parameter sources of a checkpoint. `config` (may be NULL) stands in for its config.json. */
int build_sources(config_sources *out, ckpt *c, const json *config, err *e);
