/* spec_split.h - cutting lists at characters outside brackets and quotes. */
#ifndef MODELS_SPEC_SPLIT_H
#define MODELS_SPEC_SPLIT_H
#include "base/span.h"

#include <stdbool.h>

/* The next part of *rest up to `c` outside brackets and quotes, blanks trimmed; false when *rest is used up. *rest.p = NULL ends. */
bool split_next(span *rest, char c, span *part);
span span_trim(span s);

/* Position of a single '=' outside brackets and quotes that is not part of "==", "!=", "<=", ">="; SIZE_MAX when there is none. */
size_t find_assign(span s);

#endif
