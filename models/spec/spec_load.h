/* spec_load.h - reading a spec with its bases into one tree. */
#pragma once
#include "base/span.h"
#include "models/spec/spec.h"

enum { SPEC_BYTES_MAX = 1 << 22, SPEC_DEPTH_MAX = 8 };

/* Loads a spec file, or a built-in one by its bare name ("llama"), with its bases. A file that names no base and has no
 * block of its own is read over the built-in spec `base` (NULL: none). */
int spec_load(spec **out, const char *path, const char *base, err *e);
/* The same; mistakes that leave the rest of the file readable are noted in m (NULL: none is allowed). */
int spec_load_noting(spec **out, const char *path, const char *base, mistakes *m, err *e);
/* Loads a built-in spec, even where a file of that name exists. */
int spec_load_builtin(spec **out, const char *name, err *e);
/* Loads what `[model] base` of a spec names: a built-in spec, or a file beside it. */
int spec_load_base(spec **out, const spec *child, const char *base, err *e);
/* The same from text. `what` names it in messages, `dir` is where relative paths start. */
int spec_parse(spec **out, span text, const char *what, const char *dir, const char *base, err *e);
/* spec_load with a text as base of a file that names none and has no block; `what` names that text. */
int spec_load_over(spec **out, const char *path, span base, const char *what, err *e);

/* Gives a key other text than its file does; it counts as inherited. The key must not be a slot. */
int spec_put(spec *s, const char *section, const char *key, const char *text, err *e);

/* Names of the embedded specs, in order; NULL ends. */
const char *spec_builtin_name(size_t i);
