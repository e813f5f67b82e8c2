/* spec_show.h - a resolved spec as text. */
#pragma once
#include "base/buf.h"
#include "models/spec/config_eval.h"

/* Appends INI text that loads again to the same program with the checkpoint at `path` (NULL: left out). The spec has
 * been built: keys that nothing asked for are left out. `arch` is the checkpoint's own name; NULL: the text is what the
 * model's identity covers, without [model]. tensors: NULL, or the lines of [tensors] of a file that carries this text.
 * In both cases keys that name other files, and those of running, are left out too. */
int spec_show(spec *s, config_eval *values, const char *arch, const char *path, const char *tensors, buf *out, err *e);
