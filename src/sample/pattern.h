/* pattern.h - regular expressions as phrases: ECMA 262 as JSON schemas use it, as far as it is regular.
 *
 * Known: . [] [^] \d \w \s and their negations, \t \n \r \f \v \0 \xHH \uHHHH \u{H…} and escaped signs, groups (plain,
 * ?: and named), |, * + ? {m} {m,} {m,n} and their lazy forms, ^ and $ at the ends of the whole. Refused by name: look-
 * around, back references, \b, \p, flags. Where dialects differ (digits, letters and blanks beyond ASCII), a class has
 * only what it has in all of them. */
#pragma once
#include "sample/json_phrase.h"

/* A pattern within the quotes of a JSON string: where it is not anchored, anything may stand before or after, and it
 * has min to max characters (max -1: any number). ERR_FORMAT in the builder: malformed, or what is not known. The
 * phrase calls no rule; it may have no text. */
phrase *pattern_in_json(json_phrases *j, const char *pattern, int64_t min, int64_t max);
/* The same in a text as it is, with neither NUL nor the character `without`, which is ASCII. */
phrase *pattern_in_raw(grammar_builder *b, const char *pattern, char without, int64_t min, int64_t max);
/* The whole of a text that is not JSON. */
phrase *pattern_of_text(grammar_builder *b, const char *pattern);
