/* export_state.h - what the files of export share. */
#pragma once
#include "models/export/export.h"
#include "models/spec/config_eval.h"
#include "models/compile/recipe.h"

struct exporter {
    const model *m;
    spec *s;
    config_eval *values;
    spec *names;  /* whose [tensors] and [config] name things in the container: s, or the nearest base that knows it */
    spec *base;   /* that base, owned; or NULL */
    spec *family; /* owned; of a quantized file: the built-in spec of its config.json; or NULL */
    config_eval *family_values; /* owned; the values of family */
    const json *family_config;
    json *family_text; /* owned; what the family reads of it, where it holds a text model and others; or NULL */
    const char *arch, *model_type; /* the container's names of the model */
    export_kind kind;
    dtype type;
    bool as_held; /* matrices in the types that the model was opened to hold them in */
    bool widens;  /* quantized matrices become f32, and nobody asked for it */
    arena mem;
    write_tensor *tensor;
    size_t n, cap;
    json *config;
    gguf_pairs pairs;
    bool vocabulary;
    struct binder *trained; /* reads trained numbers; NULL before the first */
    float *whole;           /* one matrix put together from parts, while it is written */
    const void *whole_of;
    int64_t whole_matrix;
    err *e; /* while opening */
};

/* "gguf" or "hf": the source in front of names in specs. */
const char *export_source(const exporter *x);
/* A word of [model] arch: for GGUF the one with that source; for HF the class, or (`small`) the model_type. Empty:
 * none. */
span export_arch_word(const spec *s, const char *source, bool small);
/* What to do where a container cannot hold a model. */
const char *export_hint(const model *m, export_kind kind);
int export_oom(const exporter *x);

/* Finds names, arch and model_type: Mistral is "llama" in GGUF, Meta's names are Llama's. */
int export_find_names(exporter *x);
/* Tensors in the container's names, from the program's weights. */
int export_rename_tensors(exporter *x);
/* Tensors whose values the program holds as numbers. */
int export_add_values(exporter *x);
/* A number that the checkpoint has as a tensor and other containers as metadata. */
int export_trained_value(exporter *x, const char *name, int layer, value *out, bool *found);
/* config or pairs from the values of [config]. */
int export_rename_config(exporter *x);

/* ---- scaled rotary positions (export_rope.c) */

/* Positions whose scaling a GGUF file has to state; NULL without rope, or in other containers. */
const rope_params *export_gguf_rope(const exporter *x);
/* Of longrope: whether short and long texts have the same factors. */
bool export_rope_factors_equal(const rope_params *p);
/* The divisors of a scaling's frequencies, p->dims / 2 numbers, for sequences of a length. */
void export_factors(const rope_params *p, int length, float *out);
/* config.json: the value of a name of [config] where only factors of frequencies are known; else *known is false. */
int export_rope_value(exporter *x, const char *name, value *out, bool *known);
/* GGUF: whether a key is left out, since readers would apply scaling keys beside a tensor of factors. */
bool export_rope_leaves_out(const exporter *x, const char *key);
/* GGUF: the factor of longrope's cosines and sines, which config.json may leave out; false: there is none. */
bool export_rope_magnitude(const exporter *x, value *out);

/* ---- names of weights (export_names.c) */

enum { EXPORT_SLOT = 64 };

/* The name of a weight in the container, and its form there. */
typedef struct out_name {
    const char *slot; /* "attn.q", "enc.attn.q" */
    recipe how;
    bool bias, own_line; /* own_line: [tensors] names the bias itself */
    int64_t tensors;     /* number that holds the weight: those of a range, or one */
    int64_t matrices;    /* in each of them */
    bool stacked;        /* the matrices have an axis of their own there */
} out_name;

/* "dec.3.attn.q.bias" -> layer 3, slot "attn.q", bias. */
void export_split_name(const char *name, int *layer, char slot[EXPORT_SLOT], bool *bias);
/* The name and recipe that [tensors] has for a weight; ERR_SPEC when it has none, or none of the weight's form. */
int export_find_name(exporter *x, const weight *w, out_name *out);
/* The first alternative of a line of [tensors] that is for the container: of a stack of matrices, or of one. */
int export_first_name(exporter *x, const spec_row *row, int layer, bool stack, recipe *out, bool *any);
/* "model.layers.0.self_attn.q_proj.weight", number k of a range; with the prefix, but for the head and hf: names. NULL:
 * out of memory. */
const char *export_full_name(exporter *x, const out_name *name, int64_t k);
