/* model.h - a model ready to run: checkpoint, resolved spec, program.
 *
 * What outer folders need to know of models/: they never see a spec key or a family. */
#pragma once
#include "base/err.h"
#include "base/buf.h"
#include "core/program.h"
#include "io/ckpt.h"
#include "models/pooling.h"
#include "models/compile/weight_policy.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct spec spec; /* models/spec.h */

typedef struct model_options {
    const char *spec_path;  /* spec file, or NULL */
    const char *spec_given; /* instead: the text of a resolved spec, of another process; it may name no files */
    ckpt *given;            /* instead of a path: open; model_open takes it, also when it fails. NULL: none */
    const char *model_path; /* checkpoint, "builtin", or NULL: then the spec's, and with neither the built-in model */
    const char *weights;    /* type name to hold weights in, NULL = as in the file */
    weight_policy *policy;  /* instead: a type for each weight; or NULL */
    const char *act;        /* inputs of quantized weights: "f32", or "q8" = NULL */
    bool written; /* the weights are for an export: with act "f32" they hold every factor and the model's order
                             * of columns, and no op applies these */
    const char *pooling, *normalize; /* "cls", "mean", "last"; "on", "off"; NULL: as the model's files say */
    const char *ignored_keys; /* keys of the configuration that no spec has to read, commas between them; or NULL */
    int ctx; /* positions to serve; 0 = the spec's, else the model's maximum (at most 8192 unless asked for) */
} model_options;

typedef struct model {
    program *prog;
    ckpt *weights; /* mapped; must outlive the backends that bound it */
    spec *resolved;
    const char *name; /* of the spec or the path, for humans and /v1/models */
    const char *arch; /* "LlamaForCausalLM" or as the spec calls it */
    int ctx;          /* positions this instance serves */
    bool act_f32;     /* inputs of quantized weights stay float32: exact, and slow */
    int32_t eos[16];  /* end ids from config and generation_config; n_eos of them */
    int n_eos;
    int32_t bos;      /* -1 none */
    pooling texts;    /* how a text becomes one vector */
    int32_t start[4]; /* n_start ids that the decoder of an encoder-decoder starts from */
    int n_start;
    bool wraps;                 /* where a head judges a text, its decoder starts from the text's last token */
    const char *tokenizer_path; /* from [tokenizer] of the spec; NULL: the checkpoint's own */
    const char *tokenizer_pre;
} model;

/* The checkpoint alone: of a path, or "builtin". */
int model_weights(ckpt **out, const char *path, err *e);
/* The checkpoint of a path, or else of a spec, or with neither (NULL) the built-in one; and [model] config, where the
 * spec names one. What was opened before an error is the caller's, too. */
int model_sources(ckpt **weights, json **config, spec *s, const char *path, err *e);
int model_open(model **out, const model_options *o, err *e);
void model_close(model *m); /* NULL ok */

/* The values of the resolved spec, for models/ itself. */
typedef struct config_eval config_eval;
config_eval *model_values(const model *m);

/* The fully resolved spec as INI text that loads again (`spec show`). */
int model_spec_text(const model *m, buf *out, err *e);
/* The same for a file that carries its spec: with these lines of [tensors], without keys that name other files. */
int model_own_spec_text(const model *m, const char *tensors, buf *out, err *e);
