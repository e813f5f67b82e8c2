/* derive_write.h - the parts of a checkpoint as the text of a spec. */
#ifndef MODELS_DERIVE_WRITE_H
#define MODELS_DERIVE_WRITE_H
#include "base/buf.h"
#include "models/derive/derive_parts.h"
#include "models/spec/spec.h"

/* Appends [config], [network] and [tensors] of a spec that takes only names for numbers from its base, llama. */
int derive_from_parts(ckpt *c, const parts *found, buf *out, err *e);

/* Text of a file on one line of a comment. */
void derive_plain(const char *text, size_t n, buf *out);
/* Appends a comment with the keys of config.json that the spec does not read, but for those of training and of files. */
void derive_unread(const spec *s, const json *config, buf *out);

#endif
