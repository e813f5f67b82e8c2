/* jinja.h - chat templates: the Jinja language as transformers renders it, in an interpreter of our own.
 *
 * The settings are those of transformers: trim_blocks, lstrip_blocks, an immutable sandbox without auto-escaping,
 * loop controls, `raise_exception`, `strftime_now`, its `tojson`, `{% generation %}`. The judge is Python's jinja2
 * 3.1.6. A template is parsed once and may then be rendered by many threads at once. Steps, depth, memory and output of
 * a rendering are bounded; a template reaches nothing but its context.
 *
 * Text has two origins: the template itself, and the context. Every byte of a rendering knows which it is, whatever
 * filters and methods it went through, so that special tokens can count in the template's own text only. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#include <time.h>

typedef struct jinja jinja;

/* Errors: ERR_FORMAT with line and construct. `source` is copied; it must be UTF-8. */
int jinja_open(jinja **out, span source, err *e);
void jinja_close(jinja *t); /* NULL ok */

/* A variable that counts as the template's own text: bos_token and its like. */
typedef struct jinja_own {
    const char *name, *text; /* name NULL ends an array; text NULL: the variable is not defined */
} jinja_own;

typedef struct jinja_input {
    span context;         /* a JSON object, as text: strings of it are text of the user */
    const jinja_own *own; /* variables beside the context's, which win; NULL: none */
    time_t now;           /* what strftime_now tells, as local time */
} jinja_input;

typedef struct jinja_output {
    buf text; /* {0} before; jinja_output_free */
    buf user; /* a byte for each of text: 1 where it comes from the context */
} jinja_output;

/* Appends to *out. Errors: ERR_FORMAT, ERR_LIMIT, ERR_MEMORY, with the line of the template; what raise_exception was
 * given is the message itself. */
int jinja_render(const jinja *t, const jinja_input *in, jinja_output *out, err *e);
void jinja_output_free(jinja_output *o);
