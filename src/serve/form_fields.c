/* form_fields.c - see form_fields.h. Grammars are compiled here, on the listener's thread, or found among those of
 * earlier requests. */
#include "serve/form_fields.h"

#include "sample/form_source.h"

#include <string.h>

/* Where a form that was read goes. */
typedef struct target {
    server *s;
    exchange *x;
    const token_trie *t;
    grammar **out;
} target;

static bool refuse_form(exchange *x, const char *name, const char *code, const char *why)
{
    reply_error(x, 400, name, code, "%s: %s", name, why);
    return false;
}

static bool compile(const target *to, const char *name, form_kind kind, span source)
{
    err e = {0};
    if ((*to->out = form_cache_find(&to->s->forms, kind, source))) return true;
    if (form_compile(to->out, kind, source, to->t, &e) == OK) {
        form_cache_add(&to->s->forms, *to->out);
        return true;
    }
    if (e.code == ERR_MEMORY) reply_error(to->x, 500, name, NULL, "out of memory");
    else refuse_form(to->x, name, "invalid_value", e.msg);
    return false;
}

/* A form that is JSON itself. */
static bool compile_json(const target *to, const char *name, form_kind kind, const json *v)
{
    buf text = {0};
    bool good = json_print(&text, v, false);
    if (good) good = compile(to, name, kind, buf_span(&text));
    else reply_error(to->x, 500, name, NULL, "out of memory");
    buf_free(&text);
    return good;
}

static bool compile_object(const target *to, const char *name)
{
    return compile(to, name, FORM_SCHEMA, span_str("{\"type\":\"object\"}"));
}

typedef struct structured {
    const char *grammar, *regex;
    const json *choice, *schema;
    bool any_object;
} structured;

/* Exactly one member says what the form is, as in vLLM; a schema may be a text. */
static bool read_structured(const target *to, const json *v)
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
    if (!fields_read(to->x, rows, to->s->o->lenient, v, &o)) return false;
    if (!!o.schema + o.any_object + !!o.regex + !!o.choice + !!o.grammar != 1)
        return refuse_form(to->x, "structured_outputs", "invalid_value",
                           "give exactly one of json, json_object, regex, choice and grammar");
    if (o.grammar) return compile(to, "grammar", FORM_GBNF, span_str(o.grammar));
    if (o.regex) return compile(to, "regex", FORM_REGEX, span_str(o.regex));
    if (o.choice) return compile_json(to, "choice", FORM_CHOICE, o.choice);
    if (o.any_object) return compile_object(to, "json_object");
    const char *text = json_str(o.schema, NULL);
    return text ? compile(to, "json", FORM_SCHEMA, span_str(text)) : compile_json(to, "json", FORM_SCHEMA, o.schema);
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
static bool read_response_format(const target *to, const json *v)
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
    if (!fields_read(to->x, rows, to->s->o->lenient, v, &o)) return false;
    if (!o.type) return refuse_form(to->x, "response_format", "missing_field", "type is missing");
    const bool named = strcmp(o.type, "json_schema") == 0, object = strcmp(o.type, "json_object") == 0;
    if (!named && !object && strcmp(o.type, "text") != 0)
        return refuse_form(to->x, "response_format", "invalid_value",
                           "type is one of text, json_object and json_schema");
    if (!named && o.json_schema)
        return refuse_form(to->x, "response_format", "invalid_value", "json_schema goes with type json_schema");
    if (!object && o.schema)
        return refuse_form(to->x, "response_format", "invalid_value", "schema belongs into json_schema");
    if (object && !o.schema) return compile_object(to, "response_format");
    if (object) return compile_json(to, "response_format", FORM_SCHEMA, o.schema);
    if (!named) return true;
    if (!o.json_schema) return refuse_form(to->x, "response_format", "missing_field", "json_schema is missing");
    if (json_type(o.json_schema) != JSON_OBJECT)
        return field_wrong_type(to->x, "json_schema", "an object", o.json_schema);
    if (!fields_read(to->x, inner, to->s->o->lenient, o.json_schema, &n)) return false;
    if (!n.schema) return refuse_form(to->x, "response_format", "missing_field", "json_schema.schema is missing");
    return compile_json(to, "response_format", FORM_SCHEMA, n.schema);
}

const char *form_fields_given(const form_fields *r)
{
    return r->grammar              ? "grammar"
           : r->json_schema        ? "json_schema"
           : r->structured_outputs ? "structured_outputs"
                                   : "response_format";
}

bool form_fields_read(server *s, exchange *x, const form_fields *r, grammar **out)
{
    err e = {0};
    const int n = !!r->grammar + !!r->json_schema + !!r->structured_outputs + !!r->response_format;
    const char *name = form_fields_given(r);
    *out = NULL;
    if (!n) return true;
    if (n > 1)
        return refuse_form(x, name, "invalid_value",
                           "give one of grammar, json_schema, response_format and structured_outputs");
    const target to = {s, x, engine_token_trie(s->g, &e), out};
    if (!to.t && e.code == ERR_USAGE) return refuse_form(x, name, "no_tokenizer", e.msg);
    if (!to.t) return reply_error(x, 500, name, NULL, "out of memory"), false;
    if (r->grammar) return compile(&to, name, FORM_GBNF, span_str(r->grammar));
    if (r->json_schema) return compile_json(&to, name, FORM_SCHEMA, r->json_schema);
    return r->structured_outputs ? read_structured(&to, r->structured_outputs)
                                 : read_response_format(&to, r->response_format);
}
