/* json_phrase.h - phrases of JSON text: values of any form, strings, numbers, and bounded blanks between them.
 *
 * Between tokens of JSON stands nothing, one blank, or a newline with at most 8 blanks or tabs; nothing stands around
 * the whole. Strings are UTF-8 with all escapes but \u0000 and lone surrogates. */
#pragma once
#include "base/json.h"
#include "sample/grammar_phrase.h"

/* Made once for a grammar, and shared. */
typedef struct json_phrases {
    grammar_builder *b;
    phrase *space;                                              /* perhaps none */
    phrase *character;                                          /* one of a string, perhaps as an escape */
    phrase *plain;                                              /* one of a string that needs no escape */
    phrase *value, *object, *array, *string, *number, *integer; /* of any content */
} json_phrases;

void json_phrases_open(json_phrases *j, grammar_builder *b);

phrase *json_literal(json_phrases *j, const json *value);  /* this value, without blanks */
phrase *json_named_key(json_phrases *j, const char *name); /* "name", a colon, blanks */
phrase *json_quoted(json_phrases *j, phrase *inside);      /* quotes around it */
phrase *json_comma(json_phrases *j);                       /* with blanks after it */
/* A key, with colon and blanks, that is none of these names, without escapes. */
phrase *json_other_key(json_phrases *j, const char *const *names, size_t n);
/* The same as it is, in a tag: at least one character, and none of blanks < > " \. */
phrase *json_other_tag(json_phrases *j, const char *const *names, size_t n);
/* One character of a closed class within a string, escaped where it has to be; NUL cannot be. */
phrase *json_class(grammar_builder *b, const char_class *c);
