/* text_rules.c - see text_rules.h. Grammars are compiled here, on the listener's thread. */
#include "serve/text_rules.h"

#include "sample/gbnf.h"
#include "sample/json_schema.h"
#include "sample/pattern.h"

#include <string.h>

/* A field of text_rules, or a member of one, that was compiled. */
typedef struct source {
    exchange *x;
    const token_trie *t;
    grammar **out;
} source;

static bool refuse(exchange *x, const char *name, const char *code, const char *why)
{
    reply_error(x, 400, name, code, "%s: %s", name, why);
    return false;
}

/* Ends the compiling of a field. */
static bool compiled(const source *to, const char *name, const err *e)
{
    if (!e->code) return true;
    if (e->code == ERR_MEMORY) reply_error(to->x, 500, name, NULL, "out of memory");
    else refuse(to->x, name, "invalid_value", e->msg);
    return false;
}

static bool read_grammar(const source *to, const char *name, const char *text)
{
    err e = {0};
    gbnf_compile(to->out, span_str(text), to->t, &e);
    return compiled(to, name, &e);
}

/* NULL: any object. */
static bool read_schema(const source *to, const char *name, const json *schema)
{
    err e = {0};
    json_schema_compile(to->out, schema, to->t, &e);
    return compiled(to, name, &e);
}

/* The text itself follows a regular expression. */
static bool read_regex(const source *to, const char *name, const char *text)
{
    err e = {0};
    grammar_builder b;
    grammar_builder_open(&b, &e);
    grammar_open(to->out, &b, grammar_rule_new(&b, span_str("regex"), pattern_of_text(&b, text)), to->t);
    return compiled(to, name, &e);
}

/* One of several texts. */
static bool read_choice(const source *to, const char *name, const json *v)
{
    err e = {0};
    grammar_builder b;
    if (json_type(v) != JSON_ARRAY || !json_count(v))
        return field_wrong_type(to->x, name, "an array of at least one string", v);
    for (const json *m = json_first(v); m; m = json_next(m))
        if (json_type(m) != JSON_STRING) return field_wrong_type(to->x, name, "an array of strings", m);
    grammar_builder_open(&b, &e);
    phrase *any = phrase_list(&b, PHRASE_CHOICE);
    for (const json *m = json_first(v); m; m = json_next(m)) phrase_add(&b, any, phrase_string(&b, json_str(m, "")));
    grammar_open(to->out, &b, grammar_rule_new(&b, span_str("choice"), any), to->t);
    return compiled(to, name, &e);
}

typedef struct structured {
    const char *grammar, *regex;
    const json *choice, *schema;
    bool any_object;
} structured;

/* A schema, also as a text; it is parsed for as long as it is read. */
static bool read_schema_text(const source *to, const char *name, const json *v)
{
    json *parsed = NULL;
    err e = {0};
    const char *text = json_str(v, NULL);
    if (text && json_parse(&parsed, span_str(text), "the schema", &e)) return compiled(to, name, &e);
    const bool good = read_schema(to, name, text ? parsed : v);
    json_free(parsed);
    return good;
}

/* Exactly one member says what the form is, as in vLLM. */
static bool read_structured(server *s, const source *to, const json *v)
{
    static const field rows[] = {
        {.name = "json", .type = FIELD_NODE, .offset = offsetof(structured, schema)},
        {.name = "json_object", .type = FIELD_BOOL, .offset = offsetof(structured, any_object)},
        {.name = "regex", .type = FIELD_TEXT, .offset = offsetof(structured, regex)},
        {.name = "choice", .type = FIELD_NODE, .offset = offsetof(structured, choice)},
        {.name = "grammar", .type = FIELD_TEXT, .offset = offsetof(structured, grammar)},
        {NULL}};
    structured o = {0};
    if (json_type(v) != JSON_OBJECT) return field_wrong_type(to->x, "structured_outputs", "an object", v);
    if (!fields_read(to->x, rows, s->o->lenient, v, &o)) return false;
    if (!!o.schema + o.any_object + !!o.regex + !!o.choice + !!o.grammar != 1)
        return refuse(to->x, "structured_outputs", "invalid_value",
                      "give exactly one of json, json_object, regex, choice and grammar");
    if (o.grammar) return read_grammar(to, "grammar", o.grammar);
    if (o.regex) return read_regex(to, "regex", o.regex);
    if (o.choice) return read_choice(to, "choice", o.choice);
    return o.schema ? read_schema_text(to, "json", o.schema) : read_schema(to, "json_object", NULL);
}

typedef struct response_form {
    const char *type;
    const json *json_schema, *schema; /* schema: llama.cpp's, beside json_object */
} response_form;

typedef struct named_schema {
    const char *name;
    const json *schema;
} named_schema;

/* OpenAI's: {"type":"json_schema","json_schema":{"name","strict","schema"}}, "json_object" or "text". */
static bool read_response_format(server *s, const source *to, const json *v)
{
    static const field rows[] = {
        {.name = "type", .type = FIELD_TEXT, .offset = offsetof(response_form, type)},
        {.name = "json_schema", .type = FIELD_NODE, .offset = offsetof(response_form, json_schema)},
        {.name = "schema", .type = FIELD_NODE, .offset = offsetof(response_form, schema)},
        {NULL}};
    static const field inner[] = {{.name = "name", .type = FIELD_TEXT, .offset = offsetof(named_schema, name)},
                                  {.name = "schema", .type = FIELD_NODE, .offset = offsetof(named_schema, schema)},
                                  {.name = "strict", .type = FIELD_IGNORE},
                                  {.name = "description", .type = FIELD_IGNORE},
                                  {NULL}};
    response_form o = {0};
    named_schema n = {0};
    if (json_type(v) != JSON_OBJECT) return field_wrong_type(to->x, "response_format", "an object", v);
    if (!fields_read(to->x, rows, s->o->lenient, v, &o)) return false;
    if (!o.type) return refuse(to->x, "response_format", "missing_field", "type is missing");
    const bool named = strcmp(o.type, "json_schema") == 0, object = strcmp(o.type, "json_object") == 0;
    if (!named && !object && strcmp(o.type, "text") != 0)
        return refuse(to->x, "response_format", "invalid_value", "type is one of text, json_object and json_schema");
    if (!named && o.json_schema)
        return refuse(to->x, "response_format", "invalid_value", "json_schema goes with type json_schema");
    if (!object && o.schema)
        return refuse(to->x, "response_format", "invalid_value", "schema belongs into json_schema");
    if (object) return read_schema(to, "response_format", o.schema);
    if (!named) return true;
    if (!o.json_schema) return refuse(to->x, "response_format", "missing_field", "json_schema is missing");
    if (json_type(o.json_schema) != JSON_OBJECT)
        return field_wrong_type(to->x, "json_schema", "an object", o.json_schema);
    if (!fields_read(to->x, inner, s->o->lenient, o.json_schema, &n)) return false;
    if (!n.schema) return refuse(to->x, "response_format", "missing_field", "json_schema.schema is missing");
    return read_schema(to, "response_format", n.schema);
}

bool text_rules_read(server *s, exchange *x, const text_rules *r, grammar **out)
{
    err e = {0};
    const int n = !!r->grammar + !!r->json_schema + !!r->structured_outputs + !!r->response_format;
    const char *name = r->grammar              ? "grammar"
                       : r->json_schema        ? "json_schema"
                       : r->structured_outputs ? "structured_outputs"
                                               : "response_format";
    *out = NULL;
    if (!n) return true;
    if (n > 1)
        return refuse(x, name, "invalid_value",
                      "give one of grammar, json_schema, response_format and structured_outputs");
    const source to = {x, engine_token_trie(s->g, &e), out};
    if (!to.t && e.code == ERR_USAGE) return refuse(x, name, "no_tokenizer", e.msg);
    if (!to.t) return compiled(&to, name, &e);
    if (r->grammar) return read_grammar(&to, name, r->grammar);
    if (r->json_schema) return read_schema(&to, name, r->json_schema);
    return r->structured_outputs ? read_structured(s, &to, r->structured_outputs)
                                 : read_response_format(s, &to, r->response_format);
}
