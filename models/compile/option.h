/* option.h - the options of a slot at a layer: which module it is, and its options struct filled from the spec.
 *
 * The value of an option is, in this order: that of the slot line (a class of the layer first, a labelled slot "norm.a"
 * before "norm", in an encoder "enc.norm.a" and "enc.norm" before both); the name of [config] spelt like the option;
 * the default of the module. */
#pragma once
#include "models/spec/config_eval.h"
#include "models/compile/module.h"

typedef struct option_slot {
    const module *mod;
    const char *where; /* "llama.ini:20: attn" */
    const spec_slot *from[64];
    int n;
} option_slot;

/* Fills a struct of mod->options_size bytes. */
int option_fill(const option_slot *o, config_eval *values, const char *path, int layer, void *into, err *e);
/* The value of one option (lists, which params cannot hold); VALUE_NONE when it has none. */
int option_value(const option_slot *o, config_eval *values, const param *row, int layer, value *out, const char **where,
                 err *e);
