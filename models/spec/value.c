/* value.c - see value.h. */
#include "models/spec/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* {"__float__": "Infinity"}, as transformers writes what JSON has no number for. */
static bool is_endless(const json *j, double *out)
{
    const char *word = json_count(j) == 1 ? json_str(json_get(j, "__float__"), "") : "";
    *out = *word == '-' ? -INFINITY : INFINITY;
    return strcmp(word, "Infinity") == 0 || strcmp(word, "-Infinity") == 0;
}

value value_of_json(const json *j)
{
    double endless;
    switch (json_type(j)) {
    case JSON_NUMBER: return (value){.kind = VALUE_NUMBER, .number = json_num(j, 0)};
    case JSON_BOOL: return (value){.kind = VALUE_BOOL, .number = json_bool(j, false)};
    case JSON_STRING: return (value){.kind = VALUE_TEXT, .text = json_str(j, "")};
    case JSON_OBJECT:
        if (is_endless(j, &endless)) return (value){.kind = VALUE_NUMBER, .number = endless};
        return (value){.kind = VALUE_NODE, .node = j};
    case JSON_ARRAY: return (value){.kind = VALUE_NODE, .node = j};
    default: return (value){0};
    }
}

static bool is_array(const value *v) { return v->kind == VALUE_NODE && json_type(v->node) == JSON_ARRAY; }

size_t value_count(const value *v)
{
    if (v->kind == VALUE_NONE) return 0;
    if (v->kind == VALUE_LIST) return v->n;
    return is_array(v) ? json_count(v->node) : 1;
}

value value_at(const value *v, size_t i)
{
    if (v->kind == VALUE_LIST) return i < v->n ? v->items[i] : (value){0};
    if (is_array(v)) return value_of_json(json_at(v->node, i));
    return i == 0 ? *v : (value){0};
}

/* The shortest text that reads back as the same number. */
static bool print_number(buf *out, double v)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    return buf_str(out, text);
}

bool value_print(const value *v, buf *out)
{
    switch (v->kind) {
    case VALUE_NUMBER: return print_number(out, v->number);
    case VALUE_BOOL: return buf_str(out, v->number != 0 ? "true" : "false");
    case VALUE_TEXT:
        if (strchr(v->text, '"') && strchr(v->text, '\'')) return false;
        return buf_printf(out, strchr(v->text, '"') ? "'%s'" : "\"%s\"", v->text);
    case VALUE_LIST:
    case VALUE_NODE:
        if (v->kind == VALUE_NODE && !is_array(v)) return false;
        buf_byte(out, '[');
        for (size_t i = 0, n = value_count(v); i < n; i++) {
            value item = value_at(v, i);
            if (i) buf_str(out, ", ");
            if (item.kind == VALUE_NODE || item.kind == VALUE_LIST || !value_print(&item, out)) return false;
        }
        return buf_byte(out, ']');
    default: return false;
    }
}
