/* schema_text.c - see schema_text.h. References are followed to a depth, so that circles end. */
#include "base/schema_text.h"

#include <stdio.h>
#include <string.h>

enum { FOLLOWED_MAX = 20 };

const json *schema_referred(const json *root, const char *ref)
{
    const json *at = root;
    if (!ref || *ref != '#' || (ref[1] && ref[1] != '/')) return NULL;
    for (const char *p = ref + 1; *p == '/' && at;) {
        char name[256];
        size_t n = 0, i = 0;
        for (p++; *p && *p != '/' && n < sizeof name - 1; p++) {
            const bool tilde = *p == '~' && (p[1] == '0' || p[1] == '1');
            unsigned byte = 0;
            if (tilde) name[n++] = *++p == '0' ? '~' : '/';
            else if (*p == '%' && sscanf(p + 1, "%2x", &byte) == 1 && p[1] && p[2]) name[n++] = (char)byte, p += 2;
            else name[n++] = *p;
        }
        name[n] = 0;
        if (json_type(at) == JSON_ARRAY) at = sscanf(name, "%zu", &i) == 1 ? json_at(at, i) : NULL;
        else at = json_get(at, name);
    }
    return at;
}

static bool is_text(const json *root, const json *schema, int depth);

/* Of a list of schemas: whether all of them, or any, are text. */
static bool are_text(const json *root, const json *list, bool all, int depth)
{
    size_t n = 0, yes = 0;
    for (const json *m = json_type(list) == JSON_ARRAY ? json_first(list) : NULL; m; m = json_next(m), n++)
        yes += is_text(root, m, depth);
    return yes && (!all || yes == n);
}

static bool are_strings(const json *list)
{
    bool all = json_type(list) == JSON_ARRAY && json_count(list);
    for (const json *m = json_first(list); m && all; m = json_next(m)) all = json_type(m) == JSON_STRING;
    return all;
}

static bool is_text(const json *root, const json *schema, int depth)
{
    const json *type = json_get(schema, "type"), *ref = json_get(schema, "$ref");
    if (depth > FOLLOWED_MAX || json_type(schema) != JSON_OBJECT) return false;
    const json *word = json_type(type) == JSON_ARRAY && json_count(type) == 1 ? json_first(type) : type;
    if (!strcmp(json_str(word, ""), "string")) return true;
    if (json_type(json_get(schema, "const")) == JSON_STRING || are_strings(json_get(schema, "enum"))) return true;
    if (ref && is_text(root, schema_referred(root, json_str(ref, NULL)), depth + 1)) return true;
    return are_text(root, json_get(schema, "allOf"), false, depth + 1) ||
           are_text(root, json_get(schema, "anyOf"), true, depth + 1) ||
           are_text(root, json_get(schema, "oneOf"), true, depth + 1);
}

bool schema_is_text(const json *root, const json *schema) { return is_text(root, schema, 0); }

const json *schema_top(const json *root)
{
    const json *at = root;
    for (int i = 0; i < FOLLOWED_MAX && json_get(at, "$ref"); i++)
        at = schema_referred(root, json_str(json_get(at, "$ref"), NULL));
    return at;
}

const json *schema_of_member(const json *root, const char *key)
{
    const json *top = schema_top(root), *own = json_get(json_get(top, "properties"), key);
    return own ? own : json_get(top, "additionalProperties");
}
