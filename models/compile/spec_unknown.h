/* spec_unknown.h - names in a spec that stand for no key. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "models/spec/spec.h"

/* Appends a line for every name in the opened file that is none of [config] and no key of `config` (NULL ok) or of any
 * built-in spec. */
void spec_unknown_names(const spec *s, const json *config, buf *out);
