/* json_schema.h - JSON schemas as grammars: every text that comes out satisfies the schema.
 *
 * Known: type (one or several), properties, required, additionalProperties, propertyNames, patternProperties,
 * minProperties and maxProperties where they can be held, items, prefixItems, minItems, maxItems, minLength, maxLength,
 * pattern (sample/pattern.h), format (those of format_list in json_schema.c), minimum, maximum, exclusiveMinimum,
 * exclusiveMaximum, enum, const, anyOf, oneOf, allOf, $ref within the schema, $defs, and what only describes (title,
 * default, …). Another keyword is refused by name, and so are schemas that nothing satisfies: nothing is ever ignored
 * that would forbid a text. pattern, format and bounds of length hold at once (grammar_common.h).
 *
 * Of the texts that satisfy a schema some are left out. Properties come in the order in which they are declared, those
 * that are required without being declared after them; others only where additionalProperties allows them or neither
 * it nor properties are there, and without escapes in their names. All prefixItems are there, as far as maxItems
 * allows. A keyword of one type implies the type. Blanks: json_phrase.h. Branches of oneOf must exclude each other
 * visibly (json_schema_apart.c). */
#pragma once
#include "base/json.h"
#include "sample/grammar.h"

/* ERR_FORMAT: malformed, not supported or not satisfiable, with the path of the keyword; ERR_LIMIT: too large. */
int json_schema_compile(grammar **out, const json *schema, const token_trie *t, err *e);

/* What was found in schemas that nothing satisfies, with its place; "": nothing was. */
typedef struct schema_doubt {
    char text[300];
} schema_doubt;
/* The same as a phrase, for a builder that makes more of it; NULL: any object. The phrase does not need the schema. The
 * first doubt that there is stays. */
phrase *json_schema_phrase(grammar_builder *b, const json *schema, schema_doubt *doubt);
/* Makes the error of a grammar that derives no text say what nothing satisfies. */
int json_schema_error(err *e, const err *own, const schema_doubt *doubt);
