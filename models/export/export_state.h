/* export_state.h - what the files of export share. */
#ifndef MODELS_EXPORT_STATE_H
#define MODELS_EXPORT_STATE_H
#include "models/export/export.h"
#include "models/spec/config_eval.h"
#include "models/build/recipe.h"

struct exporter {
    const model *m;
    spec *s;
    config_eval *values;
    spec *names; /* whose [tensors] and [config] name things in the container: s, or the nearest base that knows it */
    spec *base;  /* that base, owned; or NULL */
    spec *
        family; /* of a quantized file, which has its own names only: the built-in spec of its config.json, owned; or NULL */
    config_eval *family_values; /* with its values, owned */
    const json *family_config;
    const char *arch, *model_type; /* what the container calls it */
    export_kind kind;
    dtype type;
    bool as_held; /* matrices in the types that the model was opened to hold them in */
    arena mem;
    write_tensor *tensor;
    size_t n, cap;
    json *config;
    gguf_pairs pairs;
    bool vocabulary;
    struct binder *trained; /* reads trained numbers; NULL before the first */
    float *whole;           /* values of one matrix that is put together from parts, as it is written */
    const void *whole_of;
    int64_t whole_matrix;
    err *e; /* while opening */
};

/* "gguf" or "hf": the source in front of names in specs. */
const char *export_source(const exporter *x);
/* What to do where a container cannot hold a model. */
const char *export_hint(const model *m, export_kind kind);
int export_oom(const exporter *x);

/* Finds names, arch and model_type: Mistral is "llama" in GGUF, Meta's names are Llama's. */
int export_find_names(exporter *x);
/* Tensors in the container's names, from the program's weights. */
int export_rename_tensors(exporter *x);
/* Tensors whose values the program has as numbers. */
int export_add_values(exporter *x);
/* The number that the checkpoint has as a tensor where other containers have metadata. */
int export_trained_value(exporter *x, const char *name, int layer, value *out, bool *found);
/* config or pairs from the values of [config]. */
int export_rename_config(exporter *x);

/* ---- scaled rotary positions (export_rope.c) */

/* Positions whose scaling a GGUF file has to state; NULL without rope, or in other containers. */
const rope_params *export_gguf_rope(const exporter *x);
/* Of longrope: whether short and long texts have the same factors. */
bool export_rope_factors_equal(const rope_params *p);
/* What the frequencies of a scaling are divided by, p->dims / 2 numbers, for sequences of a length. */
void export_factors(const rope_params *p, int length, float *out);
/* config.json: the value of a name of [config] where factors of each frequency are what is known; else *known is false. */
int export_rope_value(exporter *x, const char *name, value *out, bool *known);
/* GGUF: keys of scaling beside a tensor of factors would be applied as well. */
bool export_rope_leaves_out(const exporter *x, const char *key);
/* GGUF: what longrope multiplies cosines and sines by, which config.json may leave to be computed; false: nothing to say. */
bool export_rope_magnitude(const exporter *x, value *out);

/* ---- names of weights (export_names.c) */

enum { EXPORT_SLOT = 64 };

/* What the container calls a weight, and how it holds it. */
typedef struct out_name {
    const char *slot; /* "attn.q", "enc.attn.q" */
    recipe how;
    bool bias, own_line; /* own_line: [tensors] names the bias itself */
    int64_t tensors;     /* that the weight lies in: those of a range, or one */
    int64_t matrices;    /* in each of them */
    bool stacked;        /* which have an axis of their own there */
} out_name;

/* "dec.3.attn.q.bias" -> layer 3, slot "attn.q", bias. */
void export_split_name(const char *name, int *layer, char slot[EXPORT_SLOT], bool *bias);
/* The name and recipe that [tensors] has for a weight; ERR_SPEC when it has none, or none of the weight's form. */
int export_find_name(exporter *x, const weight *w, out_name *out);
/* The first alternative of a line of [tensors] that is for the container: of a stack of matrices, or of one. */
int export_first_name(exporter *x, const spec_row *row, int layer, bool stack, recipe *out, bool *any);
/* "model.layers.0.self_attn.q_proj.weight", of a range number k: the prefix stands before all names but the head's and those that say hf:. NULL: no memory. */
const char *export_full_name(exporter *x, const out_name *name, int64_t k);

#endif
