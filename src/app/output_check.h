/* output_check.h - no command writes over what it reads: one rule for all, from the rows of their flags (param_path). */
#ifndef APP_OUTPUT_CHECK_H
#define APP_OUTPUT_CHECK_H
#include "app/app.h"

/* ERR_USAGE when an output is an input, or a folder that an input is in, under whatever names: a model's files and what belongs to
 * them, specs and what they name, texts, standard input. What is not there yet, devices and pipes are no one's input. */
int output_check(const invocation *v, err *e);

#endif
