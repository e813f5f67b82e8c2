/* spec.h - a spec as one tree, whether it came as INI or JSON, with file and line of every key, bases merged in.
 *
 * Sections: [model] [config] [network] [layer NAME] [tensors] [tokenizer] [generate] [runtime] [serve]; models/README.md is the
 * language reference. Keys of [config] are hyper-parameters by name; keys of [network] are the formulas and the slots that they
 * call; a [layer NAME] gives the layers for which `where` is true other values of both. */
#ifndef MODELS_SPEC_H
#define MODELS_SPEC_H
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/param.h"
#include "base/span.h"
#include "models/spec/expr.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct spec_row {
    const char *section, *key, *text;
    const char *where; /* "llama.ini:12": what messages start with */
    int depth;         /* 0 the file that was opened, 1 its base, … */
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
    const char *file; /* as it was named in messages */
    const char *dir;  /* that relative paths in it start from; "" for built-in ones */
    spec_row *rows;   /* nearest definition of every key but slots */
    size_t n, cap;
    map by_key; /* "section\0key" -> row */
    spec_slot *slots;
    size_t n_slot, cap_slot;
    spec_class *classes; /* in order: base first; later ones win */
    size_t n_class, cap_class;
} spec;

enum { SPEC_BYTES_MAX = 1 << 22, SPEC_DEPTH_MAX = 8 };

/* Loads a spec file, or a built-in one by its bare name ("llama"), with its bases. A file that names no base and has no block of its
 * own is read over the built-in spec `base` (NULL: none). */
int spec_load(spec **out, const char *path, const char *base, err *e);
/* Loads a built-in spec; unlike spec_load, whatever files of that name are around. */
int spec_load_builtin(spec **out, const char *name, err *e);
/* Loads what `[model] base` of a spec names: a built-in spec, or a file beside it. */
int spec_load_base(spec **out, const spec *child, const char *base, err *e);
/* The same from text. `what` names it in messages, `dir` is where relative paths start. */
int spec_parse(spec **out, span text, const char *what, const char *dir, const char *base, err *e);
/* spec_load over the text of a base, where the file names no base and has no block of its own; `what` names that text. */
int spec_load_over(spec **out, const char *path, span base, const char *what, err *e);
void spec_free(spec *s); /* NULL ok */

/* Gives a key other text than its file does; it counts as inherited. The key must not be a slot. */
int spec_put(spec *s, const char *section, const char *key, const char *text, err *e);

/* NULL when absent. */
const spec_row *spec_find(const spec *s, const char *section, const char *key);
const char *spec_text(const spec *s, const char *section, const char *key); /* NULL when absent */
/* Marks a key as used and gives its parsed value; *row NULL when absent. */
int spec_value(spec *s, const char *section, const char *key, const spec_row **row, err *e);
const spec_slot *spec_slot_find(const spec *s, const char *section, const char *name);

/* Applies a section's keys to a caller's struct through the caller's rows ([runtime], [serve], [generate]); keys of `own` are skipped.
 * Unknown keys are errors that name the nearest known one. */
int spec_settings(const spec *s, const char *section, const param *rows, size_t n, void *into, err *e);

/* Checks what can be checked without a model: fixed keys, expressions, formulas, classes. Loading does it. */
int spec_validate(spec *s, err *e);

/* Rows that models/ itself knows: [model], [tokenizer], [generate], [network]. NULL for sections with free keys. */
const param *spec_section_rows(const char *section, size_t *n);

/* Names of the embedded specs, in order; NULL ends. */
const char *spec_builtin_name(size_t i);

/* A path key ([model] path), taken relative to the spec's folder; in the spec's memory. *out NULL when the key is absent. */
int spec_path(spec *s, const char *section, const char *key, const char **out, err *e);

#endif
