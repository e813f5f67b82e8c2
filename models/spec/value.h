/* value.h - values of expressions: elements, texts, and what JSON gives. */
#pragma once
#include "base/buf.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum value_kind { VALUE_NONE, VALUE_NUMBER, VALUE_BOOL, VALUE_TEXT, VALUE_NODE, VALUE_LIST } value_kind;

typedef struct value value;
struct value {
    value_kind kind;
    double number; /* NUMBER, BOOL */
    const char *text;
    const json *node; /* object or array of a config */
    const value *items;
    size_t n;
};

size_t value_count(const value *v); /* of a list or array; 1 for scalars, 0 for none */
/* Element i of a list or array. */
value value_at(const value *v, size_t i);
value value_of_json(const json *j);
/* The value as expression text that evaluates to it again; false for objects and none. */
bool value_print(const value *v, buf *out);
