/* config_eval.h - hyper-parameters: values of a spec's expressions, with the checkpoint's own metadata as the outer scope.
 *
 * A name means, in this order: the layer number `i` (inside layers); a key of the [layer …] classes that hold for the layer (the
 * last one wins; never in the encoder of an encoder-decoder); a key of [config]; a key of config.json, nested ones with dots. Inside its own definition a name means what lies
 * further out: [layer] → [config] → config.json. `hf:`, `generation:` (generation_config.json) and the
 * checkpoint's own source (`gguf:`, `llama2c:`) ask that one alone. What is absent or null has no value; no value spreads through operators until `|` or given() meets it. */
#ifndef MODELS_CONFIG_EVAL_H
#define MODELS_CONFIG_EVAL_H
#include "base/param.h"
#include "io/ckpt.h"
#include "models/spec/spec.h"
#include "models/spec/value.h"

#include <stdbool.h>
#include <stddef.h>

/* Where names outside the spec come from; NULL = there is no such source. */
typedef struct config_sources {
    const json *hf, *generation;
    const json *own;     /* what a checkpoint says that describes itself … */
    const char *source;  /* … and what it is called: "gguf" */
    const char *arch;    /* may stand in front of its keys */
    const ckpt *weights; /* what has("tensor name") looks in */
    const param *(*option)(const char *name,
                           param_type type); /* module_option: the words that are values of such a name */
} config_sources;

typedef struct config_eval config_eval;

/* Evaluates `where` of every class for every layer. The spec must outlive it. */
int config_open(config_eval **out, spec *s, const config_sources *from, err *e);
void config_close(config_eval *values); /* NULL ok */

int config_layers(const config_eval *values); /* number of layers */
/* Classes hold: index into spec.classes; layer -1 is outside layers, where none does. */
bool config_in_class(const config_eval *values, size_t class, int layer);

enum {
    OUTSIDE = -1,     /* the layer of what is in no layer */
    ENCODER = 1 << 16 /* layer i of an encoder in front of a decoder is ENCODER + i */
};
/* The number that a program gives such a layer: those of the encoder come first. */
static inline int16_t layer_number(int layer, int n_enc)
{
    return (int16_t)(layer == OUTSIDE ? -1 : layer >= ENCODER ? layer - ENCODER : n_enc + layer);
}
/* `where` starts messages. `words` ("neox|interleaved|none", or NULL): bare names that are words in this place. Strings and lists live
 * as long as `values`. */
int config_value(config_eval *values, const expr *x, int layer, const char *words, const char *where, value *out,
                 err *e);
/* A name of [config] (and its layer classes); out->kind VALUE_NONE when it is not defined or has no value. */
int config_name(config_eval *values, const char *name, int layer, value *out, err *e);
/* The definition that config_name evaluates, or NULL: what messages can name. */
const spec_row *config_definition(const config_eval *values, const char *name, int layer);
/* Whether a bare name is a word in the definition of a name, or option, `own`: its value, not something to look up. */
bool config_is_word(const config_eval *values, const char *own, const char *word);
bool config_knows(const config_eval *values, const char *name); /* whether [config] defines it */
/* Formulas and recipes may use only `i` and names of [config], so that a resolved spec stands alone. The first other name in x, or
 * NULL. */
const char *config_unknown_name(const config_eval *values, const expr *x);
/* Whether expressions of formulas may call it: sqrt, min, contains … */
bool config_is_function(const char *name);

#endif
