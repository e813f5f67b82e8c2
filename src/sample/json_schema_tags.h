/* json_schema_tags.h - the arguments of a tool as tags, as some models write them: for each property `key`, its name,
 * `value`, the value, `end`.
 *
 * A property that is a string by base/schema_text.h stands as it is, without quotes, escapes, NUL and `text.stop`.
 * Every other value is JSON; where any string is possible among other types, also a text that is no JSON, which readers
 * take for a string. Properties come in the order that they have in JSON. Free ones have names without blanks < > " \;
 * that such a name comes again cannot be held: readers take the first. Texts with a pattern do not have the first byte
 * of text.stop.
 *
 * Refused by name are: names that no tag can hold; anyOf, oneOf, allOf, enum and const at the top; patternProperties
 * and propertyNames; constants that hold text.stop; patterns that cannot do without its first byte. */
#pragma once
#include "sample/json_schema.h"
#include "sample/text_until.h"

typedef struct json_tags {
    span key, value, end; /* bytes of tokens */
    stop_rules text;      /* opened with what closes a value */
} json_tags;

/* All properties of the arguments; schema NULL: any. Otherwise as json_schema_phrase. */
phrase *json_schema_tags(grammar_builder *b, const json *schema, json_tags *tags, schema_doubt *doubt);
