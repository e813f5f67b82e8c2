/* json_schema_state.h - inside the compiler of JSON schemas: what its files share.
 *
 * json_schema.c turns schemas into phrases, json_schema_tags.c those of arguments in tags, json_schema_merge.c makes
 * one schema of several that must hold at once, json_schema_apart.c finds out whether two exclude each other. */
#pragma once
#include "base/json.h"
#include "sample/json_phrase.h"
#include "sample/json_schema_tags.h"
#include "sample/number_range.h"

typedef struct schema_reader {
    grammar_builder *b;
    json_phrases words;
    const json *root; /* of the whole schema: what references begin from */
    buf path;         /* of the schema that is read: "#/properties/a" */
    stop_rules *raw;  /* strings, and nothing else, are read, and written as they are; NULL: JSON */
    int depth;
    int made; /* inside schemas that were made by merging: contradictions are theirs, not the user's */
    schema_doubt *doubt;
    struct schema_rule {
        const json *schema;
        uint32_t rule;
        bool raw;
    } * rules; /* of the targets of references */
    size_t n_rules, cap_rules;
    json **owned; /* merged schemas */
    size_t n_owned, cap_owned;
    size_t copied; /* values in them */
} schema_reader;

enum { SCHEMA_NEST_MAX = 100, SCHEMA_COPIED_MAX = 200000 };

/* What a schema says about types, as bits. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_OBJECT = 4,
    TYPE_ARRAY = 8,
    TYPE_NUMBER = 16,
    TYPE_STRING = 32,
    TYPE_INTEGER = 64, /* also set in the bits of "number" */
    TYPE_ALL = 127
};

/* ---- json_schema.c */
/* Errors name the path and `key` (NULL ok); NULL. */
phrase *schema_refuse(schema_reader *r, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The schema that a reference names; NULL: refused. */
const json *schema_target(schema_reader *r, const char *ref);
unsigned schema_types(const json *schema);         /* of `type`; TYPE_ALL where it is absent */
unsigned schema_implied_types(const json *schema); /* the same, or of its other keywords */
/* Whether every string satisfies a schema, as far as it is plain to see; schema NULL: it does. */
bool schema_takes_strings(schema_reader *r, const json *schema);
/* The bound of the numbers of a schema. */
number_bound schema_bound(const json *schema, bool low);
/* Reads a schema one or two steps down the path, as a phrase. */
phrase *schema_read_below(schema_reader *r, const json *schema, const char *key, const char *name);
/* An object; tags NULL: as JSON. */
phrase *schema_read_object(schema_reader *r, const json *schema, json_tags *tags);
bool schema_check_keywords(schema_reader *r, const json *schema);
/* A whole schema as a rule, read by json_schema.c or, with tags, by json_schema_tags.c. */
uint32_t schema_read_whole(grammar_builder *b, const json *schema, json_tags *tags, schema_doubt *doubt);

typedef struct property {
    phrase *pair;
    bool required;
} property;

/* ---- json_schema_tags.c */
/* The arguments of a tool; schema NULL: any. */
phrase *schema_read_tags(schema_reader *r, const json *schema, json_tags *tags);
/* A property in its tag; name NULL: the name is the phrase `other`; schema NULL: any value. */
phrase *schema_tag(schema_reader *r, json_tags *tags, const char *name, phrase *other, const json *schema);
/* The properties in their order, then any number of `more` (NULL: none). */
phrase *schema_tag_list(schema_reader *r, const property *p, size_t n, phrase *more);

/* ---- json_schema_merge.c */
/* Whether a member only describes, or holds definitions. */
bool schema_is_annotation(const char *key);
/* One schema of both; it is the reader's. A boolean or an object; NULL: refused. */
const json *schema_merge(schema_reader *r, const json *a, const json *b);
/* A schema without $ref and allOf at its top that says the same; NULL: refused. */
const json *schema_flat(schema_reader *r, const json *schema);
/* A schema without some of its members. */
const json *schema_without(schema_reader *r, const json *schema, const char *const *keys, size_t n);

/* ---- json_schema_apart.c */
bool json_same(const json *a, const json *b); /* equal values, numbers by value, members in any order */
typedef enum { FITS_NOT, FITS, FITS_PERHAPS } schema_fit;
/* Whether a value satisfies a schema; perhaps: where that takes more than its types, bounds and enum. */
schema_fit schema_fits(schema_reader *r, const json *schema, const json *value, int depth);
/* Whether no text that is made for `from` satisfies `other`. */
bool schema_excludes(schema_reader *r, const json *from, const json *other, int depth);
