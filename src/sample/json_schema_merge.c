/* json_schema_merge.c - one schema of several that must hold at once: allOf, keywords beside $ref, anyOf and oneOf.
 * Bounds meet, lists of what is required join, and schemas of the same place become an allOf, which is merged when it
 * is reached. */
#include "sample/json_schema_state.h"

#include "base/mem.h"

#include <string.h>

static bool one_of(const char *key, const char *const *words)
{
    while (*words && strcmp(*words, key) != 0) words++;
    return *words;
}

bool schema_is_annotation(const char *key)
{
    static const char *const words[] = {
        "title",         "description",     "default",          "examples",    "example",
        "deprecated",    "readOnly",        "writeOnly",        "$schema",     "$id",
        "$comment",      "$defs",           "$anchor",          "definitions", "$vocabulary",
        "discriminator", "contentEncoding", "contentMediaType", "nullable",    NULL};
    return one_of(key, words);
}

static json *own_json(schema_reader *r, json *made)
{
    void *p = r->owned;
    if (!made || !mem_grow(&p, &r->cap_owned, r->n_owned + 1, sizeof *r->owned)) {
        json_free(made);
        err_memory(r->b->e, "a schema");
        return NULL;
    }
    r->owned = p;
    return r->owned[r->n_owned++] = made;
}

static size_t count_values(const json *j)
{
    size_t n = 1;
    for (const json *m = json_first(j); m; m = json_next(m)) n += count_values(m);
    return n;
}

static void copy_to(schema_reader *r, json *to, const char *key, const json *value)
{
    r->copied += count_values(value);
    if (r->copied > SCHEMA_COPIED_MAX)
        err_set(r->b->e, ERR_LIMIT, "the schema is too large once allOf and anyOf are merged");
    else if (!json_add_copy(to, key, value)) err_memory(r->b->e, "a schema");
}

static void both_of(schema_reader *r, json *to, const char *key, const json *a, const json *b)
{
    json *list = json_add_array(json_add_object(to, key), "allOf");
    copy_to(r, list, NULL, a);
    copy_to(r, list, NULL, b);
}

const json *schema_without(schema_reader *r, const json *schema, const char *const *keys, size_t n)
{
    json *out = own_json(r, json_new_object());
    for (const json *m = json_first(schema); m && out; m = json_next(m)) {
        bool left = true;
        for (size_t i = 0; i < n; i++) left = left && strcmp(json_key(m), keys[i]) != 0;
        if (left && !schema_is_annotation(json_key(m))) copy_to(r, out, json_key(m), m);
    }
    return r->b->e->code ? NULL : out;
}

static void merge_types(json *to, const json *a, const json *b)
{
    static const struct {
        unsigned bit;
        const char *name;
    } types[] = {{TYPE_NULL, "null"},
                 {TYPE_BOOLEAN, "boolean"},
                 {TYPE_OBJECT, "object"},
                 {TYPE_ARRAY, "array"},
                 {TYPE_STRING, "string"}};
    const unsigned both = schema_types(a) & schema_types(b);
    json *list = json_add_array(to, "type");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (both & types[i].bit) json_add_str(list, NULL, types[i].name);
    if (both & TYPE_NUMBER) json_add_str(list, NULL, "number");
    else if (both & TYPE_INTEGER) json_add_str(list, NULL, "integer");
}

/* Members of `own` that `other` does not declare: they are additional there. */
static void merge_lone(schema_reader *r, json *to, const json *mine, const json *theirs, const json *rest)
{
    for (const json *m = json_first(mine); m && grammar_builder_good(r->b, 0); m = json_next(m)) {
        if (json_get(theirs, json_key(m))) continue;
        if (rest) both_of(r, to, json_key(m), m, rest);
        else copy_to(r, to, json_key(m), m);
    }
}

static void merge_properties(schema_reader *r, json *to, const json *a, const json *b)
{
    const json *x = json_get(a, "properties"), *y = json_get(b, "properties");
    json *all = json_add_object(to, "properties");
    for (const json *m = json_first(x); m; m = json_next(m))
        if (json_get(y, json_key(m))) both_of(r, all, json_key(m), m, json_get(y, json_key(m)));
    merge_lone(r, all, x, y, json_get(b, "additionalProperties"));
    merge_lone(r, all, y, x, json_get(a, "additionalProperties"));
}

static void join_members(schema_reader *r, json *to, const char *key, const json *a, const json *b)
{
    json *list = json_add_array(to, key);
    for (const json *m = json_first(a); m; m = json_next(m)) copy_to(r, list, NULL, m);
    for (const json *m = json_first(b); m; m = json_next(m)) {
        bool there = false;
        for (const json *k = json_first(a); k && !there && grammar_builder_good(r->b, 0); k = json_next(k))
            there = json_same(k, m);
        if (!there) copy_to(r, list, NULL, m);
    }
}

static void meet_members(schema_reader *r, json *to, const char *key, const json *a, const json *b)
{
    json *list = json_add_array(to, key);
    for (const json *m = json_first(a); m; m = json_next(m)) {
        bool there = false;
        for (const json *k = json_first(b); k && !there && grammar_builder_good(r->b, 0); k = json_next(k))
            there = json_same(k, m);
        if (there) copy_to(r, list, NULL, m);
    }
}

static void merge_tuples(schema_reader *r, json *to, const json *a, const json *b)
{
    json *list = json_add_array(to, "prefixItems");
    const json *x = json_first(json_get(a, "prefixItems")), *y = json_first(json_get(b, "prefixItems"));
    while (x || y) {
        const json *one = x ? x : json_get(a, "items"), *two = y ? y : json_get(b, "items");
        if (one && two) {
            json *all = json_add_array(json_add_object(list, NULL), "allOf");
            copy_to(r, all, NULL, one);
            copy_to(r, all, NULL, two);
        } else {
            copy_to(r, list, NULL, one ? one : two);
        }
        x = json_next(x);
        y = json_next(y);
    }
}

/* A text of either anyOf satisfies one branch of each. */
static void merge_branches(schema_reader *r, json *to, const json *a, const json *b)
{
    json *list = json_add_array(to, "anyOf");
    for (const json *m = json_first(a); m; m = json_next(m)) {
        json *all = json_add_array(json_add_object(list, NULL), "allOf");
        copy_to(r, all, NULL, m);
        copy_to(r, json_add_object(all, NULL), "anyOf", b);
    }
}

/* A keyword that both have. */
static void merge_member(schema_reader *r, json *to, const char *key, const json *x, const json *y)
{
    static const char *const lows[] = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", NULL};
    static const char *const highs[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", NULL};
    static const char *const schemas[] = {"items", "additionalProperties", "propertyNames", NULL};
    if (json_same(x, y)) copy_to(r, to, key, x);
    else if (one_of(key, lows)) copy_to(r, to, key, json_num(x, 0) > json_num(y, 0) ? x : y);
    else if (one_of(key, highs)) copy_to(r, to, key, json_num(x, 0) < json_num(y, 0) ? x : y);
    else if (one_of(key, schemas)) both_of(r, to, key, x, y);
    else if (!strcmp(key, "required")) join_members(r, to, key, x, y);
    else if (!strcmp(key, "enum")) meet_members(r, to, key, x, y);
    else if (!strcmp(key, "const")) json_add_array(to, "enum"); /* nothing is equal to both */
    else if (!strcmp(key, "anyOf")) merge_branches(r, to, x, y);
    else schema_refuse(r, key, "two of them that must hold at once are not supported");
}

static const json *merge_objects(schema_reader *r, const json *a, const json *b)
{
    json *out = own_json(r, json_new_object());
    const bool tuples = json_get(a, "prefixItems") || json_get(b, "prefixItems");
    if (!out) return NULL;
    if (json_get(a, "type") || json_get(b, "type")) merge_types(out, a, b);
    if (json_get(a, "properties") || json_get(b, "properties")) merge_properties(r, out, a, b);
    if (tuples) merge_tuples(r, out, a, b);
    for (int i = 0; i < 2; i++) {
        const json *own_side = i ? b : a, *other = i ? a : b;
        for (const json *m = json_first(own_side); m && !r->b->e->code; m = json_next(m)) {
            const char *key = json_key(m);
            const json *same = json_get(other, key);
            if (!strcmp(key, "type") || !strcmp(key, "properties") || !strcmp(key, "prefixItems")) continue;
            if (schema_is_annotation(key)) continue;
            if (same && !i) merge_member(r, out, key, m, same);
            else if (!same) copy_to(r, out, key, m);
        }
    }
    return r->b->e->code ? NULL : out;
}

static const json *never(schema_reader *r)
{
    json *out = own_json(r, json_new_object());
    json_add_array(out, "enum");
    return out;
}

const json *schema_merge(schema_reader *r, const json *a, const json *b)
{
    a = schema_flat(r, a);
    b = schema_flat(r, b);
    if (!a || !b) return NULL;
    if (json_type(a) == JSON_BOOL) return json_bool(a, true) ? b : never(r);
    if (json_type(b) == JSON_BOOL) return json_bool(b, true) ? a : never(r);
    return merge_objects(r, a, b);
}

const json *schema_flat(schema_reader *r, const json *schema)
{
    static const char *const keys[] = {"$ref", "allOf"};
    const json *ref = json_get(schema, "$ref"), *all = json_get(schema, "allOf");
    if (r->b->e->code || (!ref && !all)) return schema;
    if (!grammar_builder_good(r->b, 0)) return NULL;
    if (++r->depth > SCHEMA_NEST_MAX) {
        schema_refuse(r, ref ? "$ref" : "allOf", "the schema nests too deeply, or refers to itself");
        return NULL;
    }
    if (all && (json_type(all) != JSON_ARRAY || !json_count(all))) {
        schema_refuse(r, "allOf", "expected an array of at least one schema");
        return NULL;
    }
    const json *out = schema_without(r, schema, keys, 2);
    const json *target = ref && out ? schema_target(r, json_str(ref, NULL)) : NULL;
    if (target) out = schema_merge(r, out, target);
    for (const json *m = json_first(all); m && out && !r->b->e->code; m = json_next(m)) out = schema_merge(r, out, m);
    r->depth--;
    return r->b->e->code ? NULL : out;
}
