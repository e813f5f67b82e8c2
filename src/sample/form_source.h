/* form_source.h - the forms of text that are given as text: kinds of sources, with a compiler for each. A grammar made
 * here remembers its source, so that a receipt can name it. */
#pragma once
#include "sample/grammar.h"

/* X(kind, member of receipts) */
#define FORM_KIND_LIST(X)                                                                                              \
    X(FORM_GBNF, "grammar")       /* GBNF */                                                                           \
    X(FORM_SCHEMA, "json_schema") /* a JSON schema */                                                                  \
    X(FORM_REGEX, "regex")        /* a regular expression for the whole text */                                        \
    X(FORM_CHOICE, "choices")     /* a JSON array of texts */                                                          \
    X(FORM_CALLS, "tool_calls")   /* tool calls, as JSON (call_form.h) */

typedef enum {
    FORM_NONE, /* of a grammar: it has no source */
#define X(kind, name) kind,
    FORM_KIND_LIST(X)
#undef X
} form_kind;

/* Sources of these kinds are JSON, and are a value, not a text, where they stand in JSON. */
bool form_kind_is_json(form_kind kind);
/* The kind with this name; FORM_NONE: there is none. */
form_kind form_kind_named(const char *name);
const char *form_kind_name(form_kind kind);

/* ERR_FORMAT: malformed, not supported, not satisfiable; ERR_LIMIT: too large. */
int form_compile(grammar **out, form_kind kind, span source, const token_trie *t, err *e);
