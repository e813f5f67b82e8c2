/* jinja_lex.h - a template cut into tokens, with white space removed as trim_blocks, lstrip_blocks and the signs - and
 * + in tags say. */
#pragma once
#include "jinja/jinja_value.h"

typedef enum {
    JT_DATA, /* text between tags */
    JT_OUTPUT_BEGIN,
    JT_OUTPUT_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INT,
    JT_FLOAT,
    JT_OPERATOR,
    JT_END
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    jstr text;  /* JT_DATA, JT_NAME, JT_STRING (unescaped), JT_OPERATOR */
    jval value; /* JT_INT, JT_FLOAT */
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *v;
    size_t n, cap;
} jinja_tokens;

/* All tokens of a template, closed by JT_END. `source` must outlive them. Fails as jinja_value.h says. */
void jinja_lex(jinja_run *r, span source, jinja_tokens *out);
