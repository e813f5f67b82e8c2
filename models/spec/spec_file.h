/* spec_file.h - one spec file, INI or JSON, as flat rows before bases are merged. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

#include <stddef.h>

/* A row with the key "" is the head of a section, with or without keys below it. */
typedef struct file_row {
    const char *section, *key, *text;
    int line;
} file_row;

typedef struct spec_file {
    arena mem; /* owns the strings */
    file_row *rows;
    size_t n, cap;
} spec_file;

/* INI, or JSON when the first byte that is not blank is '{'. */
int spec_file_parse(spec_file *out, span text, const char *what, err *e);
void spec_file_free(spec_file *f);
