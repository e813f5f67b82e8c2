/* module.h - an atomic module: what a slot of a formula can be. A module turns a call into ops at load time; it knows
 * options, activations and weight roles, never a family, a config key or its neighbours.
 *
 * To add one: models/modules/<kind>_<name>.c, which ends in MODULE(kind, name, …), and a line in module_list.h. */
#pragma once
#include "base/param.h"
#include "core/op.h"

#include <stddef.h>
#include <stdint.h>

typedef struct builder builder; /* builder.h */
typedef struct call call;

typedef struct module_weight {
    const char *role;  /* "q": key {i}.attn.q of [tensors]; "" = the slot itself: {i}.norm.a */
    const char *shape; /* "[heads * head_dim, dim]", for people */
    const char *doc;
} module_weight;

typedef struct module {
    const char *name; /* "attn.gqa": kind (what a slot is called by default) and name */
    const char *doc;  /* one line and the paper */
    const param *params;
    size_t n_params, options_size; /* params describe a struct of options_size bytes */
    const module_weight *weights;
    size_t n_weights;
    int args, more;                         /* activations it takes; how many others it may have */
    ref (*emit)(builder *b, const call *c); /* 0: failed, b->e says why */
} module;

/* The options of a call, filled for the layer it is in. */
struct call {
    const module *mod;
    const char *path;  /* "attn", "norm.a" */
    const char *where; /* "llama.ini:20: attn" */
    const struct option_slot *slot;
    const void *options;
    ref in[4];
};

extern const module *const module_list[]; /* NULL ends */
extern const size_t module_count;

/* "gqa" for slot kind "attn", or a full name; NULL when unknown. name NULL: the only module of the kind. */
const module *module_find(const char *kind, const char *name);

/* The first option of that name and type of any module, or NULL: a name of [config] spelt like it sets it. */
const param *module_option(const char *name, param_type type);

/* A file of a module has a struct `options`, `rows` that describe it, `weights` and `emit`. A row for one field: */
#define ROW(field, kind, ...) PARAM_ROW(options, field, kind, __VA_ARGS__)
/* A row for a field of a struct that is member `at` of type_: options that modules share. */
#define MODULE_ROW_IN(type_, at, field, kind, ...)                                                                     \
    {                                                                                                                  \
        .key = #field, .type = kind, .offset = offsetof(type_, at.field), __VA_ARGS__                                  \
    }
/* The words of a PARAM_TEXT row that is a list of numbers: builder_list reads it. */
#define MODULE_LIST_OPTION "LIST"

/* The last line of <kind>_<name>.c: defines the module. */
#define MODULE(kind, name_, args_, doc_) MODULE_MORE(kind, name_, args_, 0, doc_)
#define MODULE_MORE(kind, name_, args_, more_, doc_)                                                                   \
    const module module_##kind##_##name_ = {.name = #kind "." #name_,                                                  \
                                            .doc = doc_,                                                               \
                                            .params = rows,                                                            \
                                            .n_params = sizeof rows / sizeof *rows,                                    \
                                            .options_size = sizeof(options),                                           \
                                            .weights = weights,                                                        \
                                            .n_weights = sizeof weights / sizeof *weights,                             \
                                            .args = args_,                                                             \
                                            .more = more_,                                                             \
                                            .emit = emit}
