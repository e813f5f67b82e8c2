/* json_schema_apart.c - whether two schemas exclude each other, for oneOf: what is made for one branch must not satisfy
 * another. It is shown by types, by values of enum and const, by bounds, or by a property; where nothing shows it, the
 * answer is no. */
#include "sample/json_schema_state.h"
#include "sample/number_multiple.h"

#include <string.h>

enum { APART_DEPTH_MAX = 12 };

bool json_same(const json *a, const json *b)
{
    int64_t x, y;
    const json_kind kind = json_type(a);
    if (kind != json_type(b)) return false;
    switch (kind) {
    case JSON_NULL: return true;
    case JSON_BOOL: return json_bool(a, false) == json_bool(b, false);
    case JSON_NUMBER:
        if (json_int64(a, &x) && json_int64(b, &y)) return x == y;
        return json_num(a, 0) == json_num(b, 0);
    case JSON_STRING: return !strcmp(json_str(a, ""), json_str(b, ""));
    case JSON_ARRAY:
    case JSON_OBJECT: break;
    }
    if (json_count(a) != json_count(b)) return false;
    const json *n = json_first(b);
    for (const json *m = json_first(a); m; m = json_next(m), n = json_next(n))
        if (!(kind == JSON_ARRAY ? json_same(m, n)
                                 : json_get(b, json_key(m)) && json_same(m, json_get(b, json_key(m)))))
            return false;
    return true;
}

static int64_t characters(const char *s)
{
    int64_t n = 0;
    for (; *s; s++) n += ((uint8_t)*s & 0xc0) != 0x80;
    return n;
}

static unsigned type_of(const json *v)
{
    static const unsigned types[] = {TYPE_NULL, TYPE_BOOLEAN, TYPE_NUMBER, TYPE_STRING, TYPE_ARRAY, TYPE_OBJECT};
    return json_type(v) == JSON_NUMBER && json_is_int(v) ? TYPE_INTEGER : types[json_type(v)];
}

/* A count against a schema's bounds of it. */
static bool count_is_within(const json *schema, const char *least, const char *most, int64_t n)
{
    const json *max = json_get(schema, most);
    return n >= json_int(json_get(schema, least), 0) && (!max || n <= json_int(max, INT64_MAX));
}

static bool is_within(const json *schema, double v)
{
    const number_bound low = schema_bound(schema, true), high = schema_bound(schema, false);
    const double from = low.exact ? (double)low.whole : low.value, to = high.exact ? (double)high.whole : high.value;
    return (!low.given || v > from || (v == from && !low.open)) && (!high.given || v < to || (v == to && !high.open));
}

static bool has_any(const json *schema, const char *const *keys)
{
    while (*keys && !json_get(schema, *keys)) keys++;
    return *keys;
}

schema_fit schema_fits(schema_reader *r, const json *schema, const json *value, int depth)
{
    static const char *const texts[] = {"pattern", "format", NULL}, *const others[] = {"anyOf", "oneOf", NULL};
    static const char *const arrays[] = {"items", "prefixItems", "uniqueItems", NULL};
    static const char *const objects[] = {"properties",    "required",          "additionalProperties",
                                          "propertyNames", "patternProperties", NULL};
    schema = schema_flat(r, schema);
    if (!schema || depth > APART_DEPTH_MAX) return FITS_PERHAPS;
    if (json_type(schema) == JSON_BOOL) return json_bool(schema, true) ? FITS : FITS_NOT;
    const unsigned type = type_of(value);
    const json *list = json_get(schema, "enum"), *only = json_get(schema, "const");
    bool listed = !list;
    for (const json *m = json_first(list); m && !listed; m = json_next(m)) listed = json_same(m, value);
    if (!listed || (only && !json_same(only, value)) || !(schema_types(schema) & type)) return FITS_NOT;
    bool perhaps = has_any(schema, others);
    if (type == TYPE_STRING) {
        if (!count_is_within(schema, "minLength", "maxLength", characters(json_str(value, "")))) return FITS_NOT;
        perhaps = perhaps || has_any(schema, texts);
    } else if (type == TYPE_ARRAY) {
        if (!count_is_within(schema, "minItems", "maxItems", (int64_t)json_count(value))) return FITS_NOT;
        perhaps = perhaps || has_any(schema, arrays);
    } else if (type == TYPE_OBJECT) {
        if (!count_is_within(schema, "minProperties", "maxProperties", (int64_t)json_count(value))) return FITS_NOT;
        perhaps = perhaps || has_any(schema, objects);
    } else if (type == TYPE_NUMBER || type == TYPE_INTEGER) {
        const double of = json_num(json_get(schema, "multipleOf"), 0);
        if (!is_within(schema, json_num(value, 0)) || (of > 0 && !multiple_fits(of, json_num(value, 0))))
            return FITS_NOT;
    }
    return perhaps ? FITS_PERHAPS : FITS;
}

/* Whether each value that `from` lists is refused by `other`; false where it lists none. */
static bool values_excluded(schema_reader *r, const json *from, const json *other, int depth)
{
    const json *list = json_get(from, "enum"), *only = json_get(from, "const");
    if (only) return schema_fits(r, other, only, depth) == FITS_NOT;
    if (!list) return false;
    for (const json *m = json_first(list); m; m = json_next(m))
        if (schema_fits(r, other, m, depth) != FITS_NOT) return false;
    return true;
}

static bool is_listed(const json *list, const char *name)
{
    for (const json *m = json_first(list); m; m = json_next(m))
        if (!strcmp(json_str(m, ""), name)) return true;
    return false;
}

static bool is_false(const json *schema) { return json_type(schema) == JSON_BOOL && !json_bool(schema, true); }

/* Objects: a property is forbidden, is missing, or has an excluded value. */
static bool objects_excluded(schema_reader *r, const json *from, const json *other, int depth)
{
    const json *makes = json_get(from, "properties"), *knows = json_get(other, "properties");
    const json *extra = json_get(from, "additionalProperties"), *rest = json_get(other, "additionalProperties");
    const bool only_declared = !json_get(from, "patternProperties") && (extra ? is_false(extra) : makes != NULL);
    if (json_get(other, "patternProperties")) rest = NULL;
    for (const json *m = json_first(json_get(other, "required")); m; m = json_next(m)) {
        const char *name = json_str(m, "");
        if (only_declared && !json_get(makes, name) && !is_listed(json_get(from, "required"), name)) return true;
    }
    for (const json *m = json_first(json_get(from, "required")); m; m = json_next(m)) {
        const json *mine = json_get(makes, json_str(m, "")), *theirs = json_get(knows, json_str(m, ""));
        if (!theirs) theirs = rest;
        if (theirs && (is_false(theirs) || (mine && schema_excludes(r, mine, theirs, depth + 1)))) return true;
    }
    return false;
}

static bool counts_excluded(const json *from, const json *other, const char *least, const char *most)
{
    const int64_t a = json_int(json_get(from, least), 0), b = json_int(json_get(from, most), INT64_MAX);
    return b < json_int(json_get(other, least), 0) || a > json_int(json_get(other, most), INT64_MAX);
}

static bool numbers_excluded(const json *from, const json *other)
{
    const number_bound a = schema_bound(from, true), b = schema_bound(from, false);
    const double low = a.exact ? (double)a.whole : a.value, high = b.exact ? (double)b.whole : b.value;
    const number_bound c = schema_bound(other, true), d = schema_bound(other, false);
    const double least = c.exact ? (double)c.whole : c.value, most = d.exact ? (double)d.whole : d.value;
    const bool below = b.given && c.given && (high < least || (high == least && (b.open || c.open)));
    return below || (a.given && d.given && (low > most || (low == most && (a.open || d.open))));
}

/* A list of branches, each of which `other` excludes (or the other way round). */
static bool branches_excluded(schema_reader *r, const json *list, const json *other, bool is_from, int depth)
{
    for (const json *m = json_first(list); m; m = json_next(m))
        if (!(is_from ? schema_excludes(r, m, other, depth + 1) : schema_excludes(r, other, m, depth + 1)))
            return false;
    return list != NULL;
}

bool schema_excludes(schema_reader *r, const json *from, const json *other, int depth)
{
    if (depth > APART_DEPTH_MAX || !grammar_builder_good(r->b, 0) || !(from = schema_flat(r, from)) ||
        !(other = schema_flat(r, other)))
        return false;
    if (is_false(from) || is_false(other)) return true;
    if (json_type(from) == JSON_BOOL || json_type(other) == JSON_BOOL) return false;
    unsigned types = schema_implied_types(from) & schema_types(other);
    if (!types || values_excluded(r, from, other, depth)) return true;
    if (!json_get(from, "enum") && !json_get(from, "const") && (json_get(other, "enum") || json_get(other, "const"))) {
        const json *list = json_get(other, "enum"), *only = json_get(other, "const");
        bool apart = !only || schema_fits(r, from, only, depth) == FITS_NOT;
        for (const json *m = json_first(list); m && apart; m = json_next(m))
            apart = schema_fits(r, from, m, depth) == FITS_NOT;
        if (apart) return true;
    }
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "anyOf" : "oneOf";
        if (branches_excluded(r, json_get(from, key), other, true, depth)) return true;
        if (branches_excluded(r, json_get(other, key), from, false, depth)) return true;
    }
    if ((types & TYPE_OBJECT) && objects_excluded(r, from, other, depth)) types &= ~(unsigned)TYPE_OBJECT;
    if ((types & TYPE_ARRAY) && counts_excluded(from, other, "minItems", "maxItems")) types &= ~(unsigned)TYPE_ARRAY;
    if ((types & TYPE_STRING) && counts_excluded(from, other, "minLength", "maxLength"))
        types &= ~(unsigned)TYPE_STRING;
    if (numbers_excluded(from, other)) types &= ~(unsigned)(TYPE_NUMBER | TYPE_INTEGER);
    return !types;
}
