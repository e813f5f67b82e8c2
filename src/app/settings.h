/* settings.h - defaults of flags other than those of their rows: a spec's [runtime], [serve] and [generate], and under
 * them the model's generation_config.json. The command line wins. */
#pragma once
#include "app/app.h"
#include "models/spec/spec.h"

/* Loads the file of --spec, if the flag is given; *out NULL otherwise. spec_free it after the command has run:
 * options point into it. */
int settings_open(spec **out, const invocation *v, err *e);
/* The model's path by flag or spec, where the command samples; NULL: it does not, or the built-in model runs. */
const char *settings_sampled_model(spec *over, const invocation *v);
/* Reads the model's generation_config.json, where it has one, as transformers does: do_sample false sets temperature 0;
 * temperature, top_k, top_p, min_p and typical_p count where do_sample is true, repetition_penalty always. Its
 * bad_words_ids and suppress_tokens hold for all texts of the engine. Warnings name what is not followed or out of
 * range. */
void settings_of_model(const char *path, invocation *v);
/* The strategy of the sampling options; NULL: none, or the command does not sample. */
const char *settings_strategy(const invocation *v);
/* Sets sampling options as the strategy says; flags come after it. ERR_USAGE: there is no such strategy. */
int settings_of_strategy(invocation *v, const char *name, err *e);
/* Sets the options of every flag group that a section of the spec speaks for. */
int settings_apply(spec *s, invocation *v, err *e);
/* Whether the keys of the three sections are known and their values in range (`spec check`). */
int settings_check(spec *s, err *e);
