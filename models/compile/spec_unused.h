/* spec_unused.h - what a spec says and nothing uses. */
#pragma once
#include "models/spec/spec.h"

/* Errors for what the opened spec file says and nothing uses. */
int spec_check_unused(const spec *s, err *e);
/* Whether a name of [config] is still asked for when all options are numbers and words: by a formula, as an option, or
 * by a recipe (`recipes` false: there are none). */
bool spec_name_stays(const spec *s, const char *name, bool recipes);
