/* tk_regex.h - the regular expressions of tokenizer files, matched as the library for that file matches them.
 *
 * Patterns are translated to PCRE2 first (tk_regex_syntax.h): Oniguruma (Hugging Face), fancy-regex (tiktoken) and
 * PCRE2 differ in \s, \w, nested classes, `{n,m}+`, `^` and `$`. Threads share them; regex_work belongs to one. */
#pragma once
#include "text/tk_regex_syntax.h"

#include <stddef.h>

typedef struct regex regex;
typedef struct regex_work regex_work;

int regex_compile(regex **out, span pattern, regex_flavour from, err *e);
/* Matches exactly these bytes. */
int regex_compile_literal(regex **out, span text, err *e);
void regex_free(regex *r); /* NULL ok */

int regex_work_open(regex_work **out, err *e);
void regex_work_free(regex_work *w); /* NULL ok */

/* Walks all matches of a text (valid UTF-8), without overlap; an empty match right after a match is skipped. */
typedef struct regex_walk {
    const regex *r;
    regex_work *w;
    span text;
    size_t at, last; /* last: end of the last match, SIZE_MAX before the first */
} regex_walk;

static inline regex_walk regex_begin(const regex *r, regex_work *w, span text)
{
    return (regex_walk){r, w, text, 0, SIZE_MAX};
}
/* 1: a match at [*start, *end); 0: no more; negative: an error (a pattern that needs too many steps). */
int regex_next(regex_walk *m, size_t *start, size_t *end, err *e);
