/* spec_names.h - the names that the texts of a spec hold: keys of a checkpoint's configuration, names of [config].
 *
 * Texts are read, not what was evaluated: the branch of a `?` that was not taken counts. A line that a built-in spec
 * replaced in its base does not; one that the user's file replaced does: there the file says what the key would. */
#pragma once
#include "base/span.h"
#include "models/spec/spec.h"

typedef bool (*name_fn)(void *ctx, span name); /* true: found, look no further */

/* Each function below calls `fn` for every name, and says whether one was found. `source`: "hf" (names without a source
 * and those after hf:, where names of [config] may stand too), or another ("gguf"). */

/* Those of a text; `braced`: only in braces, as in lines of [tensors]. Functions, options, words in quotes and
 * translations are no names. */
bool names_in_text(const char *source, span text, bool braced, name_fn fn, void *ctx);
bool names_in_row(const char *source, const char *section, const char *key, const char *text, name_fn fn, void *ctx);
bool names_in_spec(const char *source, const spec *s, name_fn fn, void *ctx);
/* In the built-in specs whose text has `word` in it; NULL: in all. */
bool names_in_builtins(const char *source, const char *word, name_fn fn, void *ctx);

/* Whether a row's text is about keys: formulas are not, they only know names of [config]. */
bool names_in_row_count(const char *section, const char *key);
/* "scaling.rope_theta" ends with "rope_theta", and with itself. */
bool name_ends_with(span name, span key);
