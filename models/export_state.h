/* export_state.h - what the files of export share. */
#ifndef MODELS_EXPORT_STATE_H
#define MODELS_EXPORT_STATE_H
#include "models/export.h"
#include "models/hyper.h"

struct exporter {
    const model *m;
    spec *s;
    hyper *h;
    spec *names; /* whose [tensors] and [config] name things in the container: s, or the nearest base that knows it */
    spec *base;  /* that base, owned; or NULL */
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
    float *whole; /* values of a tensor that is written transposed */
    const void *whole_of;
    err *e; /* while opening */
};

/* "gguf" or "hf": the source in front of names in specs. */
const char *export_source(const exporter *x);
int export_short_of_memory(const exporter *x);

/* Positions whose scaling a GGUF file has to state; NULL without rope, or in other containers. */
const rope_params *export_gguf_rope(const exporter *x);

/* Finds names, arch and model_type: Mistral is "llama" in GGUF, Meta's names are Llama's. */
int export_find_names(exporter *x);
/* Tensors in the container's names, from the program's weights. */
int export_rename_tensors(exporter *x);
/* config or pairs from the values of [config]. */
int export_rename_config(exporter *x);

#endif
