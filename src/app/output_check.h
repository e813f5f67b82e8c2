/* output_check.h - no command overwrites its inputs: one rule, from the rows of flags (param_path). */
#pragma once
#include "app/app.h"

/* ERR_USAGE when an output is an input, or a folder that holds an input, under whatever names. Inputs: a model's
 * files and those beside it, specs and the files they name, texts, standard input. Files that do not exist yet,
 * devices and pipes may be written. */
int output_check(const invocation *v, err *e);
