/* form_fields.h - the fields of a request that say what form its text must have: grammar, json_schema, response_format,
 * structured_outputs. At most one of them; they become one grammar. */
#pragma once
#include "sample/grammar.h"
#include "serve/exchange.h"
#include "serve/fields.h"
#include "serve/server.h"

typedef struct form_fields {
    const char *grammar;
    const json *json_schema, *response_format, *structured_outputs;
} form_fields;

/* The rows of these fields, in the table of a struct with such a member. */
#define FORM_FIELDS(struct_type, member)                                                                               \
    {.name = "grammar", .type = FIELD_TEXT, .offset = offsetof(struct_type, member.grammar)},                          \
        {.name = "json_schema", .type = FIELD_NODE, .offset = offsetof(struct_type, member.json_schema)},              \
        {.name = "response_format", .type = FIELD_NODE, .offset = offsetof(struct_type, member.response_format)},      \
    {                                                                                                                  \
        .name = "structured_outputs", .type = FIELD_NODE, .offset = offsetof(struct_type, member.structured_outputs)   \
    }

const char *form_fields_given(const form_fields *r); /* the first of them that is given */
/* *out: the grammar, to be dropped by the caller, or NULL where the text is free. False: the reply is in x. */
bool form_fields_read(server *s, exchange *x, const form_fields *r, grammar **out);
