/* spec_keys.h - the fixed keys of a spec: one table per section. Free sections ([config], [tensors]) have none; the
 * options of slots are the params of their modules; [runtime] and [serve] keep the rows of the commands that read
 * them. */
#pragma once
#include "base/param.h"

#include <stddef.h>

/* The fixed keys of [model], [tokenizer], [generate] and [network]; NULL for other sections. */
const param *spec_section_rows(const char *section, size_t *n);
bool spec_is_formula(const char *key); /* of [network]: embed, block … */
