/* spec_text.h - what the `spec` command prints, as text: the command itself only parses flags. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* Every built-in spec: name, architectures, sentence. */
int spec_text_list(buf *out, err *e);
/* Every module: doc, options with type, default and range, weights with shapes; then the fixed keys of all sections. */
bool spec_text_modules(buf *out);
/* A starting spec for a model, with the evidence and guesses as comments (models/derive). NULL: the built-in model.
 * ERR_SPEC with a text: it does not load yet. */
int spec_text_derive(const char *model_path, buf *out, err *e);
