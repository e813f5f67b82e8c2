/* spec_show.h - a resolved spec as text. */
#ifndef MODELS_SPEC_SHOW_H
#define MODELS_SPEC_SHOW_H
#include "base/buf.h"
#include "models/spec/config_eval.h"

/* Appends INI text that loads again to the same program with the checkpoint at `path` (NULL: left out). The spec has been built: what
 * nothing asked for is left out. `arch` is what the checkpoint calls itself. tensors: NULL, or the lines of [tensors] for a file that
 * carries this text itself: what names other files, or how the model is run, is left out. */
int spec_show(spec *s, config_eval *values, const char *arch, const char *path, const char *tensors, buf *out, err *e);

#endif
