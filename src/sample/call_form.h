/* call_form.h - the form of tool calls within a text: literal text, arguments that satisfy a schema, literal text; one
 * call or several. Perhaps only from a trigger on: what stands before it is free. Arguments are an object of JSON, or
 * tags (sample/json_schema_tags.h).
 *
 * Literals and triggers are plain text; names of special tokens in them mean these tokens where the vocabulary has
 * them. As JSON, the form is an object whose members are those of call_forms and call_form. */
#pragma once
#include "base/json.h"
#include "sample/grammar.h"

/* A tool as it is called. */
typedef struct call_form {
    const char *before, *after; /* around the arguments */
    const json *schema;         /* of the arguments; NULL: any object */
} call_form;

typedef struct call_forms {
    const call_form *form; /* [n] */
    size_t n;
    const char *open, *between, *close; /* before the first call, between two, after the last */
    bool several;                       /* more than one call may come */
    /* Where the beginning of the first call is: `open` or every `before` begins with it. Text that does not contain it
     * may come first. NULL: the first call comes at once. */
    const char *trigger;
    bool required; /* with a trigger: the text cannot end without a call */
    /* Arguments as tags: before and behind the name of each, and behind its value. key NULL: as JSON. A text ends with
     * `end` less its blanks. */
    const char *key, *value, *end;
    const char *special; /* names of special tokens, separated by blanks; NULL: none */
} call_forms;

/* The form as JSON text; false: out of memory. */
bool call_form_print(buf *out, const call_forms *f);
/* Compiles what call_form_print wrote. Errors as json_schema_compile, with the path in the tool's schema; ERR_USAGE: a
 * call does not begin with its trigger. */
int call_form_compile(grammar **out, const json *from, const token_trie *t, err *e);
