/* spec.h - a spec as one tree, whether it came as INI or JSON, with file and line of every key, bases merged in.
 *
 * Sections: [model] [config] [network] [layer NAME] [tensors] [tokenizer] [generate] [runtime] [serve];
 * models/README.md is the language reference. Keys of [config] are hyper-parameters by name; keys of [network] are the
 * formulas and the slots that they call; a [layer NAME] gives the layers for which `where` is true other values of
 * both. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/param.h"
#include "models/spec/expr.h"
#include "models/spec/mistakes.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct spec_row {
    const char *section, *key, *text;
    const char *where; /* "llama.ini:12", in front of messages */
    int depth;         /* 0 the file that was opened, 1 its base, … */
    bool users;        /* of a file of the user: not of a built-in spec */
    bool used;         /* some option, formula or expression asked for it */
    const expr *value; /* [config], [generate], layer values: parsed when first asked for */
} spec_row;

/* One option of a slot: "rope = neox" in `attn = gqa, rope = neox`. */
typedef struct slot_option {
    const char *key;
    const expr *value;
    const char *text, *where;
} slot_option;

/* A slot as one section declares it, bases merged: [network] attn, [layer local] attn, [network] norm.a. */
typedef struct spec_slot {
    const char *section, *name;
    const char *module; /* "gqa" or "attn.gqa"; NULL: the one of the slot it refines */
    const char *where;  /* of the line that named the module, or the first one */
    slot_option *options;
    size_t n, cap;
    bool own, used; /* own: written in the file that was opened */
} spec_slot;

typedef struct spec_class {
    const char *name; /* "local" of [layer local] */
    const char *section;
} spec_class;

typedef struct spec {
    arena mem;
    const char *file; /* its name in messages */
    const char *dir;  /* relative paths in it start here; "" for built-in specs */
    spec_row *rows;   /* nearest definition of every key but slots */
    size_t n, cap;
    map by_key; /* "section\0key" -> row */
    spec_slot *slots;
    size_t n_slot, cap_slot;
    spec_class *classes; /* in order: base first; later ones win */
    size_t n_class, cap_class;
    buf replaced;    /* texts of rows and options that the user's files replaced */
    mistakes *noted; /* where checks note what is wrong and go on; NULL: the first mistake ends loading */
} spec;

void spec_free(spec *s); /* NULL ok */

/* NULL when absent. */
const spec_row *spec_find(const spec *s, const char *section, const char *key);
const char *spec_text(const spec *s, const char *section, const char *key); /* NULL when absent */
/* spec_find that marks the row as used. */
const spec_row *spec_use(spec *s, const char *section, const char *key);
/* Marks a key as used and gives its parsed value; *row NULL when absent. */
int spec_value(spec *s, const char *section, const char *key, const spec_row **row, err *e);

/* Applies a section's keys to a caller's struct through the caller's rows ([runtime], [serve], [generate]); keys of
 * `own` are skipped. Unknown keys are errors that name the nearest known one. */
int spec_settings(spec *s, const char *section, const param *rows, size_t n, void *into, err *e);

/* A path key ([model] path), relative to the spec's folder; in the spec's memory. *out NULL when it is absent. */
int spec_path(spec *s, const char *section, const char *key, const char **out, err *e);
