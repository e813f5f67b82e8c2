/* derive_write.h - the parts of a checkpoint as the text of a spec. */
#pragma once
#include "base/buf.h"
#include "models/derive/derive_parts.h"
#include "models/spec/spec.h"

/* Appends [config], [network] and [tensors] of a spec whose base, llama, gives only names of config keys. */
int derive_from_parts(ckpt *c, const parts *found, buf *out, err *e);

/* Appends text of a file to a line of a comment; control characters become '?'. */
void derive_plain(const char *text, size_t n, buf *out);
/* Appends the keys of config.json that the spec does not read, as spec_unread_keys does; control characters become
 * '?'. */
void derive_unread(const spec *s, const json *config, buf *keys);
