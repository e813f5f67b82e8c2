/* json_schema_tags.c - see json_schema_tags.h. Objects within the arguments are JSON, so that nothing here recurs. */
#include "sample/json_schema_tags.h"

#include "base/schema_text.h"
#include "sample/json_schema_state.h"

#include <string.h>

/* Whether a tag can hold the name as it is. */
static bool is_plain_name(const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = name; *p; p++)
        if ((uint8_t)*p < 0x20 || *p == '<' || *p == '>') return false;
    return n && name[0] != ' ' && name[n - 1] != ' ';
}

/* A character but those of a class and the first of tags->text.stop, or that one; then any text. */
static void add_rest(grammar_builder *b, phrase *any, phrase *head, char_class *none, json_tags *tags)
{
    const uint32_t stop = tags->text.stop.p[0];
    const bool ok = char_class_add(b, none, 0, 0) && char_class_add(b, none, stop, stop) &&
                    char_class_close(b, none, true);
    phrase *other = phrase_both(b, ok ? phrase_class(b, none) : NULL, text_rest(&tags->text, false));
    phrase *begin = phrase_both(b, phrase_range(b, stop, stop), text_rest(&tags->text, true));
    phrase_add(b, any, phrase_both(b, head, phrase_either(b, other, begin)));
}

/* A text that is no JSON, with whatever blanks behind it: its first character tells, or that it is none of the words
 * of JSON. */
static phrase *not_json(grammar_builder *b, json_tags *tags)
{
    static const char *const words[] = {"true", "false", "null"};
    static const char firsts[] = "{[\"-0123456789tfn";
    phrase *any = phrase_list(b, PHRASE_CHOICE);
    char_class none = {0};
    bool ok = char_class_add(b, &none, 0, ' ') && char_class_add(b, &none, 0xfeff, 0xfeff);
    for (const char *c = firsts; *c && ok; c++) ok = char_class_add(b, &none, (uint32_t)*c, (uint32_t)*c);
    add_rest(b, any, phrase_string(b, ""), &none, tags);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t n = 1; words[i][n - 1] && ok; n++) {
            const uint32_t next = (uint8_t)words[i][n];
            phrase *head = phrase_text(b, span_of(words[i], n));
            none = (char_class){0};
            ok = next ? char_class_add(b, &none, next, next) : char_class_add(b, &none, 0, ' ');
            add_rest(b, any, head, &none, tags);
            if (next) phrase_add(b, any, head);
        }
    return any;
}

phrase *schema_tag(schema_reader *r, json_tags *tags, const char *name, phrase *other, const json *schema)
{
    grammar_builder *b = r->b;
    const bool declared = name && json_get(json_get(schema_top(r->root), "properties"), name);
    if (name && !is_plain_name(name))
        return schema_refuse(r, "properties",
                             "\"%.60s\" cannot be written in a tag: it is empty, or has < or >, or "
                             "blanks at its ends",
                             name);
    r->raw = schema_is_text(r->root, schema) ? &tags->text : NULL;
    phrase *value = r->words.value;
    if (schema && declared) value = schema_read_below(r, schema, "properties", name);
    else if (schema) value = schema_read_below(r, schema, "additionalProperties", NULL);
    if (!r->raw && schema_takes_strings(r, schema)) value = phrase_either(b, value, not_json(b, tags));
    r->raw = NULL;
    phrase *head = phrase_both(b, phrase_text(b, tags->key), name ? phrase_string(b, name) : other);
    phrase *tail = phrase_both(b, value, phrase_text(b, tags->end));
    return phrase_both(b, head, phrase_both(b, phrase_text(b, tags->value), tail));
}

phrase *schema_tag_list(schema_reader *r, const property *p, size_t n, phrase *more)
{
    phrase *all = phrase_list(r->b, PHRASE_SEQUENCE);
    for (size_t i = 0; i < n && grammar_builder_good(r->b, 0); i++)
        phrase_add(r->b, all, p[i].required ? p[i].pair : phrase_repeat(r->b, p[i].pair, 0, 1));
    return more ? phrase_add(r->b, all, phrase_repeat(r->b, more, 0, -1)) : all;
}

/* Follows a reference at the top; nothing but descriptions may stand beside it. NULL: refused. */
static const json *read_top(schema_reader *r, const json *schema)
{
    static const char *const not_here[] = {"anyOf", "oneOf", "allOf", "enum", "const", "patternProperties"};
    const json *top = schema_top(schema), *ref;
    for (const json *at = schema; at != top && (ref = json_get(at, "$ref")); at = schema_target(r, json_str(ref, NULL)))
        for (const json *m = json_first(at); m; m = json_next(m))
            if (strcmp(json_key(m), "$ref") != 0 && !schema_is_annotation(json_key(m)))
                schema_refuse(r, json_key(m), "arguments in tags do not support it beside $ref");
    if (json_get(top, "$ref")) schema_refuse(r, "$ref", "it refers to itself");
    if (json_type(top) != JSON_OBJECT) schema_refuse(r, NULL, "expected the schema of an object");
    for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++)
        if (json_get(top, not_here[i]))
            schema_refuse(r, not_here[i], "this model's tool calls have arguments in tags, which do not support it");
    if (json_get(top, "propertyNames")) schema_refuse(r, "propertyNames", "arguments in tags do not support it");
    if (!r->b->e->code && !(schema_types(top) & TYPE_OBJECT))
        schema_refuse(r, "type", "the arguments of a tool are an object");
    return r->b->e->code || !schema_check_keywords(r, top) ? NULL : top;
}

phrase *schema_read_tags(schema_reader *r, const json *schema, json_tags *tags)
{
    if (!schema) {
        phrase *any = schema_tag(r, tags, NULL, json_other_tag(&r->words, NULL, 0), NULL);
        return phrase_repeat(r->b, any, 0, -1);
    }
    const json *top = read_top(r, schema);
    return top ? schema_read_object(r, top, tags) : NULL;
}

phrase *json_schema_tags(grammar_builder *b, const json *schema, json_tags *tags, schema_doubt *doubt)
{
    return phrase_rule(b, schema_read_whole(b, schema, tags, doubt));
}
