/* spec_slot.h - the slot lines of [network] and [layer NAME]: "attn = gqa, rope = neox", merged over bases. */
#pragma once
#include "models/spec/spec.h"

/* NULL when absent. */
const spec_slot *spec_slot_find(const spec *s, const char *section, const char *name);
const spec_slot *spec_slot_use(spec *s, const char *section, const char *name); /* the same, marked as used */
/* keeps the text of a line that a nearer file replaces; false: memory is short */
bool spec_replaced(spec *s, const char *text);
/* Merges one line into the spec's slots: the same module, or none, adds options; another starts anew. */
int spec_slot_merge(spec *s, const char *section, const char *name, const char *text, const char *where, bool own,
                    err *e);
