/* ini.h - INI text as rows of section, key, value and line: what spec files are written in.
 *
 *     # a comment line (; works too)          no comments after a value: a value is the whole rest of its line
 *     [section]
 *     key = value                             lines of any length
 *         more of the value                   an indented line continues the value above, joined by one blank
 *
 * A key given twice in a section is an error, as are keys before the first section, control characters and bad UTF-8.
 * Each line [section] gives a row of its own with the key "", so that sections without keys are seen. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

#include <stddef.h>

typedef struct ini_row {
    const char *section, *key, *value;
    int line; /* 1 = first */
} ini_row;

typedef struct ini {
    arena mem; /* owns the strings */
    ini_row *rows;
    size_t n;
} ini;

/* Reads `text`; `what` names it in messages ("llama.ini:12: …"). On error nothing is left to free. */
int ini_read(ini *out, span text, const char *what, err *e);
void ini_free(ini *i);
