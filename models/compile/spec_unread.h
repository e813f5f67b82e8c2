/* spec_unread.h - keys of config.json that no line of a spec reads, and names in it that stand for no key. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "models/spec/spec.h"

/* Appends the keys that nothing in the spec reads, at any depth, with dots, split by ", "; false when there are none.
 * An object of which nothing is read is named as a whole. */
bool spec_unread_keys(const spec *s, const json *config, buf *out);
/* The same of those that have a value and are read by some built-in spec: what they say is lost. A spec that reads no
 * key at all stands alone: none. */
bool spec_lost_keys(const spec *s, const json *config, buf *out);
/* Appends a line for every name in the opened file that is none of [config] and no key of `config` (NULL ok) or of any
 * built-in spec. */
void spec_unknown_names(const spec *s, const json *config, buf *out);
