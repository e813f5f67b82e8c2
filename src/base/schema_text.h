/* schema_text.h - which values of a JSON schema are always strings. Some formats of tool calls write strings as they
 * are and everything else as JSON: those who write such text and those who read it must agree, by this rule alone. */
#pragma once
#include "base/json.h"

/* What a reference ("#/$defs/a") names in the schema; NULL: nothing, or it is of another form. */
const json *schema_referred(const json *root, const char *ref);
/* Whether type, const, enum, a reference, a part of allOf, or all branches of anyOf or oneOf allow strings only. NULL
 * ok. */
bool schema_is_text(const json *root, const json *schema);
/* The schema itself, or what it refers to at its top. */
const json *schema_top(const json *root);
/* The schema of a member of objects: a property, or an additional one; NULL: it says nothing. */
const json *schema_of_member(const json *root, const char *key);
