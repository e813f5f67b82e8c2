/* text_rules.h - the fields of a request that say what form its text must have: grammar, json_schema, response_format,
 * structured_outputs. At most one of them; they become one grammar. */
#pragma once
#include "sample/grammar.h"
#include "serve/exchange.h"
#include "serve/fields.h"
#include "serve/server.h"

typedef struct text_rules {
    const char *grammar;
    const json *json_schema, *response_format, *structured_outputs;
} text_rules;

/* The rows of these fields, in the table of a struct with a member `rules`. */
#define TEXT_RULE_FIELDS(struct_type)                                                                                  \
    {.name = "grammar", .type = FIELD_TEXT, .offset = offsetof(struct_type, rules.grammar)},                           \
        {.name = "json_schema", .type = FIELD_NODE, .offset = offsetof(struct_type, rules.json_schema)},               \
        {.name = "response_format", .type = FIELD_NODE, .offset = offsetof(struct_type, rules.response_format)},       \
    {                                                                                                                  \
        .name = "structured_outputs", .type = FIELD_NODE, .offset = offsetof(struct_type, rules.structured_outputs)    \
    }

const char *text_rules_field(const text_rules *r); /* the first of them that is given */
/* *out: the grammar, to be dropped by the caller, or NULL where the text is free. False: the reply is in x. */
bool text_rules_read(server *s, exchange *x, const text_rules *r, grammar **out);
