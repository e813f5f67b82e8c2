/* embed.h - files that travel inside the executable: specs, the built-in model, the web page (put there by
 * tools/embed_files.c). */
#pragma once
#include "base/span.h"

typedef struct embedded_file {
    const char *name; /* without folder: "llama.ini"; NULL ends the table */
    const uint8_t *p; /* aligned to 64, followed by a NUL byte */
    uint64_t n;
} embedded_file;

extern const embedded_file embedded_files[];

/* The file of that name; an empty span with p = NULL when there is none. */
span embedded_find(const char *name);
