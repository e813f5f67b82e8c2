/* config_eval.h - hyper-parameters: values of a spec's expressions, with the checkpoint's metadata as the outer scope.
 *
 * A name means, in this order: the layer number `i` (inside layers); a key of the [layer …] classes that hold for the
 * layer (the last one wins; never in the encoder of an encoder-decoder); a key of [config]; a key of config.json,
 * nested ones with dots. On the right side of its own definition a name means the next one outwards: [layer] → [config]
 * → config.json. `hf:`, `generation:` (generation_config.json) and the checkpoint's own source (`gguf:`, `llama2c:`)
 * ask that one alone. An absent or null name has no value, and neither has an expression that contains it, but for `|`
 * and given(). */
#pragma once
#include "base/param.h"
#include "io/ckpt.h"
#include "models/spec/spec.h"
#include "models/spec/value.h"

#include <stdbool.h>
#include <stddef.h>

/* Where names outside the spec come from; NULL = there is no such source. */
typedef struct config_sources {
    const json *hf, *generation;
    const json *own;                                  /* the metadata of a checkpoint that describes itself, */
    const char *source;                               /* the name of that source ("gguf"), */
    const char *arch;                                 /* and the architecture that may stand in front of its keys */
    const ckpt *weights;                              /* what has("tensor name") looks in */
    const param *(*option)(const char *, param_type); /* module_option: whose words need no quotes */
} config_sources;

typedef struct config_eval config_eval;

/* Evaluates `where` of every class for every layer. The spec must outlive it. */
int config_open(config_eval **out, spec *s, const config_sources *from, err *e);
void config_close(config_eval *values); /* NULL ok */

int config_layers(const config_eval *values); /* number of layers */
/* Whether a class (an index into spec.classes) holds for a layer; outside layers none does. */
bool config_in_class(const config_eval *values, size_t class, int layer);

enum {
    OUTSIDE = -1,     /* the layer number outside layers */
    ENCODER = 1 << 16 /* layer i of the encoder of an encoder-decoder is ENCODER + i */
};
/* The number of such a layer in a program, where the encoder's come first. */
static inline int16_t layer_number(int layer, int n_enc)
{
    return (int16_t)(layer == OUTSIDE ? -1 : layer >= ENCODER ? layer - ENCODER : n_enc + layer);
}
/* `where` starts messages. `words` ("neox|interleaved|none", or NULL): bare names that are words in this place. Strings
 * and lists live as long as `values`. */
int config_value(config_eval *values, const expr *x, int layer, const char *words, const char *where, value *out,
                 err *e);
/* A name of [config] (and its layer classes); out->kind VALUE_NONE when it is not defined or has no value. */
int config_name(config_eval *values, const char *name, int layer, value *out, err *e);
/* The definition that config_name evaluates, for messages; or NULL. */
const spec_row *config_definition(const config_eval *values, const char *name, int layer);
/* Puts behind a recorded message the keys of the model's files that the name's value comes from, or may. Its code. */
int config_blame(config_eval *values, const char *name, int layer, err *e);
/* Whether a bare name is a fixed word in the definition of the name or option `own`, not a name to look up. */
bool config_is_word(const config_eval *values, const char *own, const char *word);
bool config_knows(const config_eval *values, const char *name); /* whether [config] defines it */
/* The first name in x that is neither `i` nor of [config], or NULL: formulas and recipes may use no other. */
const char *config_unknown_name(const config_eval *values, const expr *x);
/* Whether expressions of formulas may call it: sqrt, min, contains … */
bool config_is_function(const char *name);
