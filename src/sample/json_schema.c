/* json_schema.c - see json_schema.h. Every schema becomes a phrase of its types; the target of a reference becomes a
 * rule, once, so that schemas may recur. Keywords beside $ref, allOf, anyOf or oneOf are merged into their branches. */
#include "sample/json_schema_state.h"
#include "sample/number_multiple.h"

#include "base/mem.h"
#include "base/schema_text.h"
#include "sample/pattern.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What each keyword says something about; 0: any type. */
typedef struct keyword {
    const char *name;
    unsigned types;
} keyword;

static const keyword keywords[] = {
    {"type", 0},
    {"enum", 0},
    {"const", 0},
    {"anyOf", 0},
    {"oneOf", 0},
    {"allOf", 0},
    {"$ref", 0},
    {"properties", TYPE_OBJECT},
    {"required", TYPE_OBJECT},
    {"additionalProperties", TYPE_OBJECT},
    {"propertyNames", TYPE_OBJECT},
    {"patternProperties", TYPE_OBJECT},
    {"minProperties", TYPE_OBJECT},
    {"maxProperties", TYPE_OBJECT},
    {"items", TYPE_ARRAY},
    {"prefixItems", TYPE_ARRAY},
    {"minItems", TYPE_ARRAY},
    {"maxItems", TYPE_ARRAY},
    {"uniqueItems", TYPE_ARRAY},
    {"minLength", TYPE_STRING},
    {"maxLength", TYPE_STRING},
    {"pattern", TYPE_STRING},
    {"format", TYPE_STRING},
    {"minimum", TYPE_NUMBER | TYPE_INTEGER},
    {"maximum", TYPE_NUMBER | TYPE_INTEGER},
    {"exclusiveMinimum", TYPE_NUMBER | TYPE_INTEGER},
    {"exclusiveMaximum", TYPE_NUMBER | TYPE_INTEGER},
    {"multipleOf", TYPE_NUMBER | TYPE_INTEGER},
};

#define DAY   "(0[1-9]|1[0-9]|2[0-8])"
#define DATE  "[12][0-9]{3}-((0[1-9]|1[0-2])-" DAY "|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME  CLOCK ":[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]" CLOCK ")"
#define LABEL "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?"
#define BYTE  "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define PATH  "(/[A-Za-z0-9._~-]{1,30}){0,8}/?"

/* Formats of strings; a part of what each allows ("": anything). Formats of numbers say how they are stored. */
static const struct {
    const char *name, *pattern;
} format_list[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration",
     "^P([0-9]{1,4}D|([0-9]{1,4}D)?T[0-9]{1,4}(H([0-9]{1,4}M([0-9]{1,4}S)?)?|M([0-9]{1,4}S)?|S)|[0-9]{1,4}W)$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"email", "^[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,20}){0,2}@(" LABEL "\\.){1,3}[a-z]{2,10}$"},
    {"hostname", "^(" LABEL "\\.){0,5}[a-z]([a-z0-9-]{0,20}[a-z0-9])?$"},
    {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
    {"idn-email", "^[a-z0-9]{1,30}@(" LABEL "\\.){1,3}[a-z]{2,10}$"},
    {"uri-reference", "^" PATH "$"},
    {"byte", "^([A-Za-z0-9+/]{4})*$"},
    {"binary", ""},
    {"password", ""},
    {"ipv6", "^[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}$"},
    {"iri", "^https?://(" LABEL "\\.){1,3}[a-z]{2,10}" PATH "$"},
    {"uri", "^https?://(" LABEL "\\.){1,3}[a-z]{2,10}" PATH "(\\?[A-Za-z0-9_=&.-]{1,40})?(#[A-Za-z0-9_-]{1,20})?$"},
};

phrase *schema_refuse(schema_reader *r, const char *key, const char *fmt, ...)
{
    char what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    err_set(r->b->e, ERR_FORMAT, "%.200s%s%.80s: %s", buf_cstr(&r->path), key ? "/" : "", key ? key : "", what);
    return NULL;
}

static bool has_failed(const schema_reader *r) { return r->b->e->code != OK; }

/* Nothing satisfies the schema here: the user's mistake, or what merging has found. */
static phrase *nothing(schema_reader *r, const char *key, const char *what)
{
    if (!r->made) return schema_refuse(r, key, "%s: nothing satisfies it", what);
    char *text = r->doubt->text;
    if (!*text) snprintf(text, sizeof r->doubt->text, "%.200s/%s: %s", buf_cstr(&r->path), key, what);
    return phrase_never(r->b);
}

/* ---- types */

static unsigned type_bits(const char *name)
{
    static const struct {
        const char *name;
        unsigned bits;
    } names[] = {{"null", TYPE_NULL},      {"boolean", TYPE_BOOLEAN}, {"object", TYPE_OBJECT},
                 {"array", TYPE_ARRAY},    {"string", TYPE_STRING},   {"number", TYPE_NUMBER | TYPE_INTEGER},
                 {"integer", TYPE_INTEGER}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i].name)) return names[i].bits;
    return 0;
}

unsigned schema_types(const json *schema)
{
    const json *v = json_get(schema, "type");
    if (!v) return TYPE_ALL;
    unsigned bits = type_bits(json_str(v, ""));
    if (json_type(v) == JSON_ARRAY)
        for (const json *m = json_first(v); m; m = json_next(m)) bits |= type_bits(json_str(m, ""));
    return bits;
}

unsigned schema_implied_types(const json *schema)
{
    unsigned bits = 0;
    if (json_get(schema, "type")) return schema_types(schema);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_get(schema, keywords[i].name)) bits |= keywords[i].types;
    return bits ? bits : TYPE_ALL;
}

/* Of the branches of oneOf only one may be about strings. */
static bool branch_takes_strings(schema_reader *r, const json *list, bool alone)
{
    size_t some = 0, all = 0;
    if (json_type(list) != JSON_ARRAY || ++r->depth > SCHEMA_NEST_MAX) return false;
    for (const json *m = json_first(list); m && grammar_builder_good(r->b, 0); m = json_next(m)) {
        some += json_type(m) != JSON_OBJECT || (schema_implied_types(m) & TYPE_STRING) != 0;
        all += schema_takes_strings(r, m);
    }
    r->depth--;
    return all && (!alone || some == 1);
}

bool schema_takes_strings(schema_reader *r, const json *schema)
{
    if (!schema || json_type(schema) == JSON_BOOL) return json_bool(schema, true);
    bool takes = (schema_implied_types(schema) & TYPE_STRING) != 0 && json_type(schema) == JSON_OBJECT;
    for (const json *m = json_first(schema); m && takes; m = json_next(m)) {
        const char *key = json_key(m);
        unsigned about = 0;
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
            if (!strcmp(keywords[i].name, key)) about = keywords[i].types;
        if (!strcmp(key, "anyOf") || !strcmp(key, "oneOf")) takes = branch_takes_strings(r, m, key[0] == 'o');
        else takes = !strcmp(key, "type") || schema_is_annotation(key) || (about && !(about & TYPE_STRING));
    }
    return takes;
}

static bool check_types(schema_reader *r, const json *schema)
{
    const json *v = json_get(schema, "type");
    if (json_type(v) == JSON_STRING && !type_bits(json_str(v, "")))
        schema_refuse(r, "type", "\"%.40s\" is no type", json_str(v, ""));
    else if (v && json_type(v) != JSON_STRING && json_type(v) != JSON_ARRAY)
        schema_refuse(r, "type", "expected a string or an array of strings");
    for (const json *m = json_type(v) == JSON_ARRAY ? json_first(v) : NULL; m; m = json_next(m))
        if (!type_bits(json_str(m, ""))) schema_refuse(r, "type", "\"%.40s\" is no type", json_str(m, "?"));
    return !has_failed(r);
}

/* ---- members of schemas */

/* A count that is a keyword's value; `otherwise` where it is absent. */
static int64_t read_count(schema_reader *r, const json *schema, const char *key, int64_t otherwise)
{
    const json *v = json_get(schema, key);
    const double n = json_num(v, -1);
    if (!v) return otherwise;
    if (n >= 0 && n == floor(n) && n < 1e15) return (int64_t)n;
    schema_refuse(r, key, "expected a whole number that is not negative");
    return otherwise;
}

static bool read_counts(schema_reader *r, const json *schema, const char *least, const char *most, int64_t *min,
                        int64_t *max)
{
    *min = read_count(r, schema, least, 0);
    *max = read_count(r, schema, most, -1);
    return *max < 0 || *min <= *max;
}

number_bound schema_bound(const json *schema, bool low)
{
    const json *closed = json_get(schema, low ? "minimum" : "maximum");
    const json *open = json_get(schema, low ? "exclusiveMinimum" : "exclusiveMaximum");
    number_bound x = {0};
    for (int i = 0; i < 2; i++) { /* the narrower of both; of equals the open one */
        const json *v = i ? open : closed;
        if (json_type(v) != JSON_NUMBER) continue;
        const double here = json_num(v, 0), before = x.exact ? (double)x.whole : x.value;
        if (x.given && (low ? here < before : here > before)) continue;
        x = (number_bound){.given = true, .open = i, .value = here};
        x.exact = json_int64(v, &x.whole);
    }
    return x;
}

static phrase *read_schema(schema_reader *r, const json *schema);

phrase *schema_read_below(schema_reader *r, const json *schema, const char *key, const char *name)
{
    const size_t n = r->path.n;
    buf_printf(&r->path, name ? "/%s/%.100s" : "/%s", key, name);
    phrase *p = read_schema(r, schema);
    r->path.n = n;
    return p;
}

static phrase *read_numbered(schema_reader *r, const json *schema, const char *key, int i)
{
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    return schema_read_below(r, schema, key, name);
}

/* ---- objects */

enum { PROPERTIES_MAX = 4000 };

static bool is_required(const json *required, const char *name)
{
    for (const json *m = json_first(required); m; m = json_next(m))
        if (!strcmp(json_str(m, ""), name)) return true;
    return false;
}

/* The pairs of an object from property i on: the first of all, or behind a comma. From the end, each as a rule. */
static phrase *chain_pairs(schema_reader *r, const property *p, size_t n, phrase *more)
{
    grammar_builder *b = r->b;
    phrase *comma = json_comma(&r->words), *first = phrase_string(b, ""), *after = first;
    if (more) {
        after = phrase_repeat(b, phrase_both(b, comma, more), 0, -1);
        first = phrase_either(b, first, phrase_both(b, more, after));
    }
    for (size_t i = n; i-- > 0 && grammar_builder_good(b, 0);) {
        phrase *one = phrase_both(b, p[i].pair, after), *next = phrase_both(b, comma, one);
        first = p[i].required ? one : phrase_either(b, one, first);
        after = p[i].required ? next : phrase_either(b, next, after);
        first = phrase_rule(b, grammar_rule_new(b, buf_span(&r->path), first));
        after = phrase_rule(b, grammar_rule_new(b, buf_span(&r->path), after));
    }
    return first;
}

/* Pairs of any keys but the names, min to max of them (max -1: any number); all of the object. */
static phrase *only_others(schema_reader *r, phrase *pair, int64_t min, int64_t max)
{
    grammar_builder *b = r->b;
    if (max == 0) return phrase_string(b, "");
    phrase *more = phrase_repeat(b, phrase_both(b, json_comma(&r->words), pair), 0, max < 0 ? -1 : max - 1);
    return phrase_repeat(b, phrase_both(b, pair, more), min, 1);
}

static phrase *braces(schema_reader *r, phrase *pairs)
{
    grammar_builder *b = r->b;
    phrase *inside = phrase_both(b, pairs, phrase_repeat(b, r->words.space, 0, 1));
    return phrase_both(b, phrase_both(b, phrase_string(b, "{"), r->words.space),
                       phrase_both(b, inside, phrase_string(b, "}")));
}

/* Whether the object can keep to its numbers of properties: n are declared, of which some are required. */
static bool check_property_counts(schema_reader *r, const json *schema, int64_t n, int64_t required, bool more)
{
    int64_t min, max;
    if (!read_counts(r, schema, "minProperties", "maxProperties", &min, &max)) return !has_failed(r);
    const bool only_others = more && !n;
    if (min > (only_others ? 1 : required))
        schema_refuse(r, "minProperties", "more than 1, or than what is required, is not supported");
    else if (!only_others && max >= 0 && (more || max < n))
        schema_refuse(r, "maxProperties", "less than all properties is not supported");
    return !has_failed(r);
}

/* Whether propertyNames says nothing. */
static bool allows_any_name(const json *named)
{
    bool any = !named || json_type(named) == JSON_OBJECT || json_bool(named, false);
    for (const json *m = json_first(named); m; m = json_next(m))
        any = any && (!strcmp(json_key(m), "type") ? (schema_types(named) & TYPE_STRING) != 0
                                                   : schema_is_annotation(json_key(m)));
    return any;
}

/* What is said of names in general would have to hold for those that are listed, too. */
static bool check_names(schema_reader *r, const json *schema, size_t n)
{
    const bool patterns = json_get(schema, "patternProperties") != NULL;
    const bool named = !allows_any_name(json_get(schema, "propertyNames"));
    if ((patterns && named) || (n && (patterns || named)))
        schema_refuse(r, patterns ? "patternProperties" : "propertyNames",
                      "beside properties, required or each other it is not supported");
    return !has_failed(r);
}

/* A key, with its colon, that no property has: of any name, or as propertyNames or the only pattern says; *value is
 * changed to that of the pattern. */
static phrase *other_key(schema_reader *r, const json *schema, const char *const *names, size_t n, phrase **value)
{
    grammar_builder *b = r->b;
    const json *named = json_get(schema, "propertyNames"), *patterns = json_get(schema, "patternProperties");
    const char *key = patterns ? "patternProperties" : "propertyNames";
    if (!patterns && allows_any_name(named)) return json_other_key(&r->words, names, n);
    phrase *name = NULL;
    if (patterns) {
        const json *only = json_first(patterns);
        if (json_type(patterns) != JSON_OBJECT || json_count(patterns) != 1)
            return schema_refuse(r, key, "expected an object of one pattern: more are not supported");
        name = pattern_in_json(&r->words, json_key(only), 0, -1);
        if (b->e->code == ERR_FORMAT) err_wrap(b->e, "%.200s/%s", buf_cstr(&r->path), key);
        *value = schema_read_below(r, only, key, json_key(only));
    } else {
        json *text = json_new_object();
        json_add_str(text, "type", "string");
        const json *both = schema_merge(r, named, text);
        r->made++;
        name = both ? schema_read_below(r, both, key, NULL) : NULL;
        r->made--;
        json_free(text);
    }
    return phrase_both(b, name, phrase_both(b, phrase_string(b, ":"), r->words.space));
}

/* Undeclared properties: schema NULL: of any value. */
static phrase *read_pair(schema_reader *r, const json *schema, const char *name, bool declared, json_tags *tags)
{
    if (tags) return schema_tag(r, tags, name, NULL, schema);
    const char *key = declared ? "properties" : "additionalProperties";
    phrase *value = schema ? schema_read_below(r, schema, key, declared ? name : NULL) : r->words.value;
    return phrase_both(r->b, json_named_key(&r->words, name), value);
}

static size_t list_properties(schema_reader *r, const json *schema, json_tags *tags, property *p, const char **names)
{
    const json *declared = json_get(schema, "properties"), *required = json_get(schema, "required");
    const json *extra = json_get(schema, "additionalProperties");
    size_t n = 0;
    for (const json *m = json_first(declared); m && !has_failed(r); m = json_next(m), n++) {
        names[n] = json_key(m);
        p[n] = (property){read_pair(r, m, names[n], true, tags), is_required(required, names[n])};
    }
    for (const json *m = json_first(required); m && !has_failed(r); m = json_next(m)) {
        names[n] = json_str(m, "");
        if (json_get(declared, names[n])) continue;
        bool twice = false;
        for (size_t i = 0; i < n; i++) twice = twice || !strcmp(names[i], names[n]);
        if (twice) continue;
        p[n] = (property){read_pair(r, extra, names[n], false, tags), true};
        n++;
    }
    return n;
}

phrase *schema_read_object(schema_reader *r, const json *schema, json_tags *tags)
{
    const json *declared = json_get(schema, "properties"), *required = json_get(schema, "required");
    const json *extra = json_get(schema, "additionalProperties");
    grammar_builder *b = r->b;
    if (declared && json_type(declared) != JSON_OBJECT) return schema_refuse(r, "properties", "expected an object");
    if (required && json_type(required) != JSON_ARRAY) return schema_refuse(r, "required", "expected an array");
    for (const json *m = json_first(required); m; m = json_next(m))
        if (json_type(m) != JSON_STRING) return schema_refuse(r, "required", "expected an array of names");
    int64_t min, max, needed = 0;
    if (!read_counts(r, schema, "minProperties", "maxProperties", &min, &max))
        return nothing(r, "minProperties", "more than maxProperties");
    const size_t cap = json_count(declared) + json_count(required) + 1;
    property *p = arena_array(&b->mem, cap, sizeof *p);
    const char **names = arena_array(&b->mem, cap, sizeof *names);
    if (cap > PROPERTIES_MAX) return schema_refuse(r, "properties", "more than %d are not supported", PROPERTIES_MAX);
    if (!p || !names) err_memory(b->e, "a schema");
    if (b->e->code) return NULL;
    const size_t n = list_properties(r, schema, tags, p, names);
    for (size_t i = 0; i < n; i++) needed += p[i].required;
    const bool closed = json_type(extra) == JSON_BOOL && !json_bool(extra, true);
    const bool patterns = json_get(schema, "patternProperties") != NULL;
    const bool more = patterns || (extra ? !closed : !declared);
    if (b->e->code || !check_names(r, schema, n) || !check_property_counts(r, schema, (int64_t)n, needed, more))
        return NULL;
    if (tags) {
        phrase *free = more ? schema_tag(r, tags, NULL, json_other_tag(&r->words, names, n), extra) : NULL;
        return n || !more ? schema_tag_list(r, p, n, free) : phrase_repeat(b, free, min, max);
    }
    if (!more) return braces(r, chain_pairs(r, p, n, NULL));
    phrase *value = extra && !patterns ? schema_read_below(r, extra, "additionalProperties", NULL) : r->words.value;
    phrase *key = other_key(r, schema, names, n, &value), *pair = phrase_both(b, key, value);
    return braces(r, n ? chain_pairs(r, p, n, pair) : only_others(r, pair, min, max));
}

/* A value that is given, as JSON or as it is; NULL: refused. */
static phrase *read_literal(schema_reader *r, const char *key, const json *value)
{
    const char *text = json_str(value, NULL);
    if (!r->raw) return json_literal(&r->words, value);
    if (!text) return phrase_never(r->b);
    for (const char *p = text; *p; p++)
        if (strlen(p) >= r->raw->stop.n && !memcmp(p, r->raw->stop.p, r->raw->stop.n))
            return schema_refuse(r, key, "\"%.40s\" holds what ends a text between tags", text);
    return phrase_string(r->b, text);
}

/* ---- arrays */

enum { UNIQUE_MAX = 8 };

/* Items behind a comma each, from min to max of them; max -1: any number. */
static phrase *more_items(schema_reader *r, phrase *item, int64_t min, int64_t max)
{
    return phrase_repeat(r->b, phrase_both(r->b, json_comma(&r->words), item), min < 0 ? 0 : min, max);
}

static phrase *brackets(schema_reader *r, phrase *items)
{
    grammar_builder *b = r->b;
    phrase *within = phrase_both(b, r->words.space, phrase_both(b, items, phrase_repeat(b, r->words.space, 0, 1)));
    return phrase_both(b, phrase_string(b, "["), phrase_both(b, within, phrase_string(b, "]")));
}

/* The values that items can have, where these are listed: how many; -1: they are not. */
static int list_values(schema_reader *r, const json *items, const json *to[UNIQUE_MAX])
{
    items = items ? schema_flat(r, items) : NULL;
    const json *list = json_get(items, "enum"), *only = json_get(items, "const");
    int n = 0;
    if (!list && !only) return -1;
    for (const json *m = only ? only : json_first(list); m; m = only ? NULL : json_next(m)) {
        const schema_fit fit = schema_fits(r, items, m, 0);
        bool there = false;
        for (int i = 0; i < n; i++) there = there || json_same(to[i], m);
        if (fit == FITS_NOT || there) continue;
        if (fit == FITS_PERHAPS || n == UNIQUE_MAX) return -1;
        to[n++] = m;
    }
    return n;
}

/* Items that are all different, from min to max of them: a rule for each set of values that are there already. */
static phrase *read_unique(schema_reader *r, const json *schema, int64_t min, int64_t max)
{
    grammar_builder *b = r->b;
    const json *value[UNIQUE_MAX];
    const int n = json_get(schema, "prefixItems") ? -1 : list_values(r, json_get(schema, "items"), value);
    phrase *more[1 << UNIQUE_MAX];
    if (has_failed(r)) return NULL;
    if (n < 0)
        return schema_refuse(r, "uniqueItems", "not supported but for items of an enum of at most %d values",
                             UNIQUE_MAX);
    if (min > n) return nothing(r, "minItems", "more items than there are values");
    for (int set = (1 << n) - 1; set >= 0 && grammar_builder_good(b, 0); set--) {
        const int64_t has = __builtin_popcount((unsigned)set);
        phrase *any = phrase_list(b, PHRASE_CHOICE);
        if (has >= min || has == n) phrase_add(b, any, phrase_string(b, ""));
        for (int i = 0; i < n && (max < 0 || has < max); i++) {
            if (set >> i & 1) continue;
            phrase *one = phrase_both(b, read_literal(r, "enum", value[i]), more[set | 1 << i]);
            phrase_add(b, any, set ? phrase_both(b, json_comma(&r->words), one) : one);
        }
        more[set] = set ? phrase_rule(b, grammar_rule_new(b, buf_span(&r->path), any)) : any;
    }
    return has_failed(r) ? NULL : more[0];
}

static phrase *read_array(schema_reader *r, const json *schema)
{
    grammar_builder *b = r->b;
    const json *tuple = json_get(schema, "prefixItems"), *items = json_get(schema, "items");
    int64_t min, max, n = 0;
    if (tuple && json_type(tuple) != JSON_ARRAY) return schema_refuse(r, "prefixItems", "expected an array of schemas");
    if (!read_counts(r, schema, "minItems", "maxItems", &min, &max))
        return nothing(r, "minItems", "more than maxItems");
    if (json_bool(json_get(schema, "uniqueItems"), false) && (max < 0 || max > 1))
        return brackets(r, read_unique(r, schema, min, max));
    phrase *inside = phrase_list(b, PHRASE_SEQUENCE);
    for (const json *m = json_first(tuple); m && (max < 0 || n < max) && !b->e->code; m = json_next(m), n++) {
        if (n) phrase_add(b, inside, json_comma(&r->words));
        phrase_add(b, inside, read_numbered(r, m, "prefixItems", (int)n));
    }
    if (b->e->code) return NULL;
    const int64_t left = max < 0 ? -1 : max - n;
    const bool closed = json_type(items) == JSON_BOOL && !json_bool(items, true);
    phrase *one = r->words.value;
    if (items && !closed && left) one = schema_read_below(r, items, "items", NULL);
    if (closed && min > n) return nothing(r, "minItems", "more items than there may be");
    if (closed || !left || (n && !items && min <= n)) one = NULL;
    if (one && n) phrase_add(b, inside, more_items(r, one, min - n, left));
    if (one && !n) {
        phrase *all = phrase_both(b, one, more_items(r, one, min - 1, left < 0 ? -1 : left - 1));
        phrase_add(b, inside, phrase_repeat(b, all, min > 0, 1));
    }
    return brackets(r, inside);
}

/* ---- strings and numbers */

static const char *format_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof format_list / sizeof *format_list; i++)
        if (!strcmp(format_list[i].name, name)) return format_list[i].pattern;
    return NULL;
}

/* The texts of a pattern, of min to max characters; key: the keyword that it comes from. */
static phrase *read_pattern(schema_reader *r, const char *key, const char *text, int64_t min, int64_t max)
{
    phrase *p = r->raw ? pattern_in_raw(r->b, text, (char)r->raw->stop.p[0], min, max)
                       : pattern_in_json(&r->words, text, min, max);
    if (r->b->e->code == ERR_FORMAT) err_wrap(r->b->e, "%.200s/%s", buf_cstr(&r->path), key);
    return p;
}

static phrase *read_string(schema_reader *r, const json *schema)
{
    const json *pattern = json_get(schema, "pattern"), *format = json_get(schema, "format");
    int64_t min, max;
    if (!read_counts(r, schema, "minLength", "maxLength", &min, &max))
        return nothing(r, "minLength", "more than maxLength");
    if (pattern && json_type(pattern) != JSON_STRING) return schema_refuse(r, "pattern", "expected a string");
    if (format && json_type(format) != JSON_STRING) return schema_refuse(r, "format", "expected a string");
    const char *known = format ? format_pattern(json_str(format, "")) : "", *text = json_str(pattern, "");
    if (!known) return schema_refuse(r, "format", "\"%.40s\" is not supported", json_str(format, ""));
    if (has_failed(r)) return NULL;
    if (!*known && !*text && r->raw) return text_without(r->raw, min, max);
    if (!*known && !*text) return json_quoted(&r->words, phrase_repeat(r->b, r->words.character, min, max));
    phrase *p = *known ? read_pattern(r, "format", known, min, max) : NULL;
    if (*text) {
        phrase *own = read_pattern(r, "pattern", text, min, max);
        p = p ? phrase_common(r->b, p, own) : own;
    }
    if (r->made || has_failed(r)) return p;
    char otherwise[400];
    snprintf(otherwise, sizeof otherwise, "%.200s/%s: nothing satisfies it%s", buf_cstr(&r->path),
             *text ? "pattern" : "format",
             *known && *text   ? " as the format is written here"
             : min || max >= 0 ? " between minLength and maxLength"
                               : "");
    return phrase_needed(r->b, p, otherwise);
}

static phrase *read_number(schema_reader *r, const json *schema, bool whole)
{
    static const char *const keys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    const number_bound low = schema_bound(schema, true), high = schema_bound(schema, false);
    for (size_t i = 0; i < 4; i++)
        if (json_get(schema, keys[i]) && json_type(json_get(schema, keys[i])) != JSON_NUMBER)
            return schema_refuse(r, keys[i], "expected a number");
    const json *of = json_get(schema, "multipleOf");
    multiple m;
    if (of && !(json_num(of, 0) > 0)) return schema_refuse(r, "multipleOf", "expected a number above 0");
    if (of && !multiple_of(&m, json_num(of, 0), whole))
        return schema_refuse(r, "multipleOf", "of %.15g is not supported: more than 400 remainders, or 9 places",
                             json_num(of, 0));
    if (!of && !low.given && !high.given) return whole ? r->words.integer : r->words.number;
    phrase *p = of ? multiples_between(r->b, &m, low, high) : number_between(r->b, low, high, whole);
    if (p || has_failed(r)) return p;
    if (of) return nothing(r, "multipleOf", "no multiple lies between the bounds");
    return nothing(r, json_get(schema, keys[0]) ? keys[0] : keys[2],
                   whole ? "no whole number lies between the bounds" : "no number lies between the bounds");
}

/* ---- values, branches, references */

static phrase *read_values(schema_reader *r, const json *schema)
{
    const json *list = json_get(schema, "enum"), *only = json_get(schema, "const");
    const char *const key = only ? "const" : "enum";
    const json *rest = schema_without(r, schema, &key, 1);
    phrase *any = phrase_list(r->b, PHRASE_CHOICE);
    if (list && json_type(list) != JSON_ARRAY) return schema_refuse(r, "enum", "expected an array");
    for (const json *m = only ? only : json_first(list); m && !has_failed(r) && rest; m = only ? NULL : json_next(m)) {
        const schema_fit fit = schema_fits(r, rest, m, 0);
        if (fit == FITS_PERHAPS)
            return schema_refuse(r, key, "not supported beside keywords other than type and bounds");
        if (fit == FITS) phrase_add(r->b, any, read_literal(r, key, m));
    }
    return any && any->n ? any : nothing(r, key, "no value is left");
}

static bool check_apart(schema_reader *r, const json *list)
{
    int i = 0;
    for (const json *a = json_first(list); a && !has_failed(r); a = json_next(a), i++) {
        int k = 0;
        for (const json *c = json_first(list); c && !has_failed(r); c = json_next(c), k++)
            if (c != a && !schema_excludes(r, a, c, 0))
                schema_refuse(r, "oneOf", "a text may satisfy branches %d and %d at once; use anyOf", i, k);
    }
    return !has_failed(r);
}

/* anyOf or oneOf, with what stands beside it merged into each branch. */
static phrase *read_branches(schema_reader *r, const json *schema, const char *key)
{
    const json *list = json_get(schema, key), *rest = schema_without(r, schema, &key, 1);
    phrase *any = phrase_list(r->b, PHRASE_CHOICE);
    int i = 0;
    if (json_type(list) != JSON_ARRAY || !json_count(list))
        return schema_refuse(r, key, "expected an array of at least one schema");
    if (!strcmp(key, "oneOf") && !check_apart(r, list)) return NULL;
    for (const json *m = json_first(list); m && rest && !has_failed(r); m = json_next(m), i++) {
        const bool alone = !json_count(rest);
        const json *one = alone ? m : schema_merge(r, rest, m);
        r->made += !alone;
        if (one) phrase_add(r->b, any, read_numbered(r, one, key, i));
        r->made -= !alone;
    }
    return any;
}

const json *schema_target(schema_reader *r, const char *ref)
{
    if (!ref) {
        schema_refuse(r, "$ref", "expected a string");
        return NULL;
    }
    if (*ref != '#' || (ref[1] && ref[1] != '/')) {
        schema_refuse(r, "$ref", "\"%.80s\" is not supported: only what begins with #/", ref);
        return NULL;
    }
    const json *at = schema_referred(r->root, ref);
    if (!at) schema_refuse(r, "$ref", "\"%.80s\" refers to nothing", ref);
    return at;
}

static phrase *read_reference(schema_reader *r, const json *ref)
{
    const json *target = schema_target(r, json_str(ref, NULL));
    if (!target) return NULL;
    for (size_t i = 0; i < r->n_rules; i++)
        if (r->rules[i].schema == target && r->rules[i].raw == (r->raw != NULL))
            return phrase_rule(r->b, r->rules[i].rule);
    void *p = r->rules;
    const uint32_t rule = grammar_rule_new(r->b, span_str(json_str(ref, "")), NULL);
    if (!mem_grow(&p, &r->cap_rules, r->n_rules + 1, sizeof *r->rules)) err_memory(r->b->e, "a schema");
    if (has_failed(r)) return NULL;
    r->rules = p;
    r->rules[r->n_rules++] = (struct schema_rule){target, rule, r->raw != NULL};
    const int made = r->made; /* what is referred to is the user's own text */
    buf path = r->path;
    r->made = 0;
    r->path = (buf){0};
    buf_str(&r->path, json_str(ref, ""));
    phrase *body = read_schema(r, target);
    buf_free(&r->path);
    r->path = path;
    r->made = made;
    if (!has_failed(r)) r->b->rule[rule].body = body;
    return phrase_rule(r->b, rule);
}

bool schema_check_keywords(schema_reader *r, const json *schema)
{
    for (const json *m = json_first(schema); m; m = json_next(m)) {
        const char *key = json_key(m);
        bool known = schema_is_annotation(key) || strncmp(key, "x-", 2) == 0;
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords && !known; i++)
            known = !strcmp(keywords[i].name, key);
        if (!known) schema_refuse(r, key, "this keyword is not supported");
    }
    return !has_failed(r) && check_types(r, schema);
}

static phrase *read_types(schema_reader *r, const json *schema)
{
    const unsigned types = schema_implied_types(schema);
    phrase *any = phrase_list(r->b, PHRASE_CHOICE);
    if (r->raw) return types & TYPE_STRING ? read_string(r, schema) : nothing(r, "type", "no type is left");
    if (types == TYPE_ALL && !json_get(schema, "type")) return r->words.value;
    if (types & TYPE_OBJECT) phrase_add(r->b, any, schema_read_object(r, schema, NULL));
    if (types & TYPE_ARRAY) phrase_add(r->b, any, read_array(r, schema));
    if (types & TYPE_STRING) phrase_add(r->b, any, read_string(r, schema));
    if (types & TYPE_INTEGER) phrase_add(r->b, any, read_number(r, schema, !(types & TYPE_NUMBER)));
    if (types & TYPE_BOOLEAN) phrase_add(r->b, any, phrase_string(r->b, "true"));
    if (types & TYPE_BOOLEAN) phrase_add(r->b, any, phrase_string(r->b, "false"));
    if (types & TYPE_NULL) phrase_add(r->b, any, phrase_string(r->b, "null"));
    return types ? any : nothing(r, "type", "no type is left");
}

/* A reference, or what is merged of references and allOf. */
static phrase *read_merged(schema_reader *r, const json *schema)
{
    bool alone = json_get(schema, "$ref") != NULL;
    for (const json *m = json_first(schema); m; m = json_next(m))
        alone = alone && (!strcmp(json_key(m), "$ref") || schema_is_annotation(json_key(m)));
    if (alone) return read_reference(r, json_get(schema, "$ref"));
    const json *flat = schema_flat(r, schema);
    r->made++;
    phrase *p = flat ? read_schema(r, flat) : NULL;
    r->made--;
    return p;
}

static phrase *read_schema(schema_reader *r, const json *schema)
{
    phrase *p = NULL;
    if (json_type(schema) == JSON_BOOL && json_bool(schema, true))
        return r->raw ? text_without(r->raw, 0, -1) : r->words.value;
    if (json_type(schema) == JSON_BOOL) {
        char *text = r->doubt->text;
        if (!*text) snprintf(text, sizeof r->doubt->text, "%.200s: false", buf_cstr(&r->path));
        return phrase_never(r->b);
    }
    if (json_type(schema) != JSON_OBJECT) return schema_refuse(r, NULL, "expected a schema: an object, true or false");
    if (!schema_check_keywords(r, schema) || !grammar_builder_good(r->b, 0)) return NULL;
    if (++r->depth > SCHEMA_NEST_MAX) return schema_refuse(r, NULL, "the schema nests too deeply");
    if (json_get(schema, "$ref") || json_get(schema, "allOf")) p = read_merged(r, schema);
    else if (json_get(schema, "oneOf")) p = read_branches(r, schema, "oneOf");
    else if (json_get(schema, "anyOf")) p = read_branches(r, schema, "anyOf");
    else if (json_get(schema, "enum") || json_get(schema, "const")) p = read_values(r, schema);
    else p = read_types(r, schema);
    r->depth--;
    return p;
}

uint32_t schema_read_whole(grammar_builder *b, const json *schema, json_tags *tags, schema_doubt *doubt)
{
    schema_reader r = {.b = b, .root = schema, .doubt = doubt};
    buf_str(&r.path, "#");
    json_phrases_open(&r.words, b);
    phrase *all = tags ? schema_read_tags(&r, schema, tags) : !schema ? r.words.object : read_schema(&r, schema);
    if (r.path.bad) err_memory(b->e, "a schema");
    for (size_t i = 0; i < r.n_owned; i++) json_free(r.owned[i]);
    mem_free(r.owned);
    mem_free(r.rules);
    buf_free(&r.path);
    const uint32_t rule = grammar_rule_new(b, span_str("#"), all);
    if (!b->e->code) b->rule[rule].needed = "";
    return rule;
}

phrase *json_schema_phrase(grammar_builder *b, const json *schema, schema_doubt *doubt)
{
    return phrase_rule(b, schema_read_whole(b, schema, NULL, doubt));
}

int json_schema_error(err *e, const err *own, const schema_doubt *doubt)
{
    const char *why = doubt->text;
    if (own->code == ERR_UNSATISFIABLE)
        return err_set(e, ERR_FORMAT, "nothing satisfies the schema%s%s", *why ? ": " : "", why);
    return err_copy(e, own);
}

int json_schema_compile(grammar **out, const json *schema, const token_trie *t, err *e)
{
    grammar_builder b;
    err own = {0};
    schema_doubt doubt = {0};
    *out = NULL;
    grammar_builder_open(&b, &own);
    grammar_open(out, &b, schema_read_whole(&b, schema, NULL, &doubt), t);
    return json_schema_error(e, &own, &doubt);
}
