/* fields.h - the fields of a JSON request as rows: names, types, ranges.
 *
 * Strict: an unknown field (one of another endpoint too) is refused by name or, lenient, ignored and logged; a value of
 * the wrong type or out of range is refused; null means absent. */
#pragma once
#include "base/json.h"
#include "serve/exchange.h"

typedef enum {
    FIELD_INT,    /* int64_t */
    FIELD_FLOAT,  /* double */
    FIELD_BOOL,   /* bool */
    FIELD_TEXT,   /* const char *, the JSON node's memory */
    FIELD_NODE,   /* const json *, any type: the endpoint reads it */
    FIELD_IGNORE, /* accepted without effect */
    FIELD_ONLY    /* accepted without effect where it is `only` */
} field_type;

struct field {
    const char *name, *alias; /* alias NULL ok */
    field_type type;
    size_t offset;   /* in the struct of the endpoint */
    double min, max; /* numbers; both 0 = unbounded */
    bool never_zero;
    const char *only; /* JSON text without blanks */
};

/* Fields that clients send with every request for text, and that mean nothing here. */
#define FIELDS_WITHOUT_EFFECT                                                                                          \
    {.name = "user", .type = FIELD_IGNORE}, {.name = "metadata", .type = FIELD_IGNORE},                                \
        {.name = "store", .type = FIELD_IGNORE}, {.name = "service_tier", .type = FIELD_IGNORE},                       \
        {.name = "safety_identifier", .type = FIELD_IGNORE}, {.name = "verbosity", .type = FIELD_IGNORE},              \
        {.name = "prediction", .type = FIELD_IGNORE}, {.name = "prompt_cache_key", .type = FIELD_IGNORE},              \
        {.name = "prompt_cache_retention", .type = FIELD_IGNORE},                                                      \
        {.name = "prompt_cache_options", .type = FIELD_IGNORE},                                                        \
    {                                                                                                                  \
        .name = "modalities", .type = FIELD_ONLY, .only = "[\"text\"]"                                                 \
    }

/* Parses x->body, a JSON object with the fields of x's endpoint, into `into`, which holds the defaults. NULL: the reply
 * is in x. The strings of `into` live until json_free of the result. */
json *body_read(const server *s, exchange *x, void *into);
/* Reads the members of an object that is a field; `rows` as in a route. On failure the reply is in x. */
bool fields_read(exchange *x, const field *rows, bool lenient, const json *object, void *into);

/* Whether an object, which is part of field `at`, has no members but those of `names` (split by blanks), and null ones.
 * Where the server is lenient others are logged. False: the reply is in x. */
bool fields_only(exchange *x, const char *at, const json *object, const char *names);

const char *json_type_name(const json *j); /* "a string", "an array", … */
/* Replies that the field has another type than expected; false. */
bool field_wrong_type(exchange *x, const char *name, const char *expected, const json *v);
