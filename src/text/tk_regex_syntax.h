/* tk_regex_syntax.h - regular expressions of other libraries in the syntax of PCRE2. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

typedef enum { REGEX_ONIGURUMA, REGEX_FANCY } regex_flavour;

/* Appends the pattern in PCRE2's syntax. ERR_FORMAT names what cannot be translated. */
int regex_translate(span pattern, regex_flavour from, buf *out, err *e);
