/* spec_split.h - cutting lists at characters outside brackets and quotes. */
#pragma once
#include "base/span.h"

#include <stdbool.h>

/* The next part of *rest up to `c` outside brackets and quotes, trimmed; false when *rest is used up (rest->p NULL). */
bool split_next(span *rest, char c, span *part);
span span_trim(span s);

/* Position of an '=' outside brackets and quotes that is no part of "==", "!=", "<=", ">="; SIZE_MAX: none. */
size_t find_assign(span s);
