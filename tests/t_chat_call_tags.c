#define _GNU_SOURCE
/* t_chat_call_tags.c - tool calls whose arguments are tags: what the form allows, that it is what templates write, and
 * what the parser makes of texts that are drawn from it. */
#include "tests/grammar_rig.h"

#include "sample/call_form.h"
#include "sample/form_source.h"
#include "sample/json_schema.h"
#include "chat/call_parser.h"
#include "chat/chat_options.h"

/* The form of calls of one tool, "f", with this schema, as a server makes it. */
static int compile(grammar **out, const call_format *f, const char *schema, err *e)
{
    const call_writing *w = &f->writing;
    const char *at = strchr(w->before, '@');
    char before[100];
    json *j = NULL;
    buf source = {0};
    if (schema) assert_ok(json_parse(&j, span_str(schema), "schema", e), e);
    snprintf(before, sizeof before, "%.*sf%s", (int)(at - w->before), w->before, at + 1);
    const call_form one = {before, w->after, j};
    const call_forms all = {.form = &one,
                            .n = 1,
                            .open = "",
                            .between = w->between ? w->between : "",
                            .close = "",
                            .several = true,
                            .key = w->key,
                            .value = w->value,
                            .end = w->end,
                            .special = f->special};
    assert_true(call_form_print(&source, &all));
    const int rc = form_compile(out, FORM_CALLS, buf_span(&source), rig_trie(), e);
    buf_free(&source);
    json_free(j);
    return rc;
}

/* A call of "f" with arguments in pairs of name and value; NULL ends them. */
static void write_call(const call_format *f, const char *const *pairs, buf *out)
{
    const call_writing *w = &f->writing;
    for (const char *c = w->before; *c; c++) buf_byte(out, (uint8_t)(*c == '@' ? 'f' : *c));
    for (; *pairs; pairs += 2) buf_printf(out, "%s%s%s%s%s", w->key, pairs[0], w->value, pairs[1], w->end);
    buf_str(out, w->after);
}

/* The arguments of the only call in a text, read whole, and byte by byte with the same result. */
static void read_back(const call_format *f, const char *schema, span text, buf *out)
{
    buf declared = {0};
    json *tools;
    err e = {0};
    buf_printf(&declared, "[{\"function\":{\"name\":\"f\",\"parameters\":%s}}]", schema ? schema : "null");
    assert_ok(json_parse(&tools, buf_span(&declared), "tools", &e), &e);
    for (size_t step = text.n; step; step = step > 1 ? 1 : 0) {
        call_parser *p;
        chat_message m = {0};
        assert_ok(call_parser_open(&p, &(call_parser_options){.format = f, .bound = true, .tools = tools}, &e), &e);
        for (size_t i = 0; i < text.n; i += step)
            assert_ok(call_parser_feed(p, span_of(text.p + i, step), i + step >= text.n, &m, &e), &e);
        if (m.n_calls != 1 || !m.calls[0].whole || m.content.n) fail_msg("%.*s", (int)text.n, text.p);
        assert_true(span_is(buf_span(&m.calls[0].name), "f"));
        if (step > 1) buf_add(out, m.calls[0].arguments.p, m.calls[0].arguments.n);
        else assert_true(span_is(buf_span(&m.calls[0].arguments), buf_cstr(out)));
        chat_message_free(&m);
        call_parser_close(p);
    }
    json_free(tools);
    buf_free(&declared);
}

/* Whether the same schema allows the arguments as JSON. */
static void expect_valid(const char *schema, span arguments)
{
    grammar *g;
    json *j = NULL;
    err e = {0};
    if (schema) assert_ok(json_parse(&j, span_str(schema), "schema", &e), &e);
    assert_ok(json_schema_compile(&g, j, rig_trie(), &e), &e);
    if (rig_match(g, arguments) != RIG_WHOLE) fail_msg("%.*s", (int)arguments.n, arguments.p);
    grammar_drop(g);
    json_free(j);
}

#define OBJECT(properties, more) "{\"type\":\"object\",\"properties\":{" properties "}" more "}"
#define TEXT                     "\"s\":{\"type\":\"string\"}"

/* A schema, a call's arguments, and what is read of them; NULL: the form does not allow the call. */
static const struct {
    const char *schema, *pairs[8], *arguments;
} calls[] = {
    {OBJECT(TEXT, ""), {"s", "5"}, "{\"s\": \"5\"}"},
    {OBJECT(TEXT, ""), {"s", "true"}, "{\"s\": \"true\"}"},
    {OBJECT(TEXT, ""), {"s", "{\"a\":1}"}, "{\"s\": \"{\\\"a\\\":1}\"}"},
    {OBJECT(TEXT, ""), {"s", "\n a\xc3\xa9\\\n"}, "{\"s\": \"\\n a\xc3\xa9\\\\\\n\"}"},
    {OBJECT(TEXT, ""), {"s", ""}, "{\"s\": \"\"}"},
    {OBJECT(TEXT, ""), {"s", "</tool_call></function> </b>"}, "{\"s\": \"</tool_call></function> </b>\"}"},
    {OBJECT(TEXT, ""), {"s", "<</parameter </arg_value"}, "{\"s\": \"<</parameter </arg_value\"}"},
    {OBJECT(TEXT, ""), {"s", "\xff"}, NULL},
    {OBJECT(TEXT, ""), {NULL}, "{}"},
    {OBJECT(TEXT, ",\"required\":[\"s\"]"), {NULL}, NULL},
    {OBJECT(TEXT, ""), {"s", "a", "s", "b"}, NULL},
    {OBJECT(TEXT, ""), {"t", "a"}, NULL},
    {OBJECT(TEXT ",\"n\":{\"type\":\"integer\"}", ""), {"s", "1", "n", "1"}, "{\"s\": \"1\", \"n\": 1}"},
    {OBJECT(TEXT ",\"n\":{\"type\":\"integer\"}", ""), {"n", "1"}, "{\"n\": 1}"},
    {OBJECT(TEXT ",\"n\":{\"type\":\"integer\"}", ""), {"n", "1", "s", "1"}, NULL},
    {OBJECT(TEXT ",\"n\":{\"type\":\"integer\"}", ""), {"n", "one"}, NULL},
    {OBJECT("\"n\":{\"type\":\"number\"}", ",\"required\":[\"s\"]"),
     {"n", "1.5", "s", "[]"},
     "{\"n\": 1.5, \"s\": []}"},
    {OBJECT("\"l\":{\"items\":{\"type\":\"string\"}}", ""),
     {"l", "[\"</parameter>\", \"</arg_value>\"]"},
     "{\"l\": [\"</parameter>\", \"</arg_value>\"]}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "\"a\""}, "{\"s\": \"a\"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "null"}, "{\"s\": null}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "Paris \"x"}, "{\"s\": \"Paris \\\"x\"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "new <b>"}, "{\"s\": \"new <b>\"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "nullify"}, "{\"s\": \"nullify\"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "nul"}, "{\"s\": \"nul\"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "tru "}, "{\"s\": \"tru \"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "true"}, NULL},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "null "}, NULL},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "5"}, NULL},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""),
     {"s", "\xef\xbb\xbf"
           "5"},
     NULL},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", ""}, NULL},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"]}", ""), {"s", "\"\""}, "{\"s\": \"\"}"},
    {OBJECT("\"s\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", ""), {"s", "<"}, "{\"s\": \"<\"}"},
    {OBJECT("\"s\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", ""), {"s", "x"}, "{\"s\": \"x\"}"},
    {OBJECT("\"s\":{}", ""), {"s", "x"}, "{\"s\": \"x\"}"},
    {OBJECT("\"s\":{\"type\":[\"string\",\"null\"],\"maxLength\":3}", ""), {"s", "abc"}, NULL},
    {OBJECT("\"s\":{\"type\":\"object\"}", ""), {"s", "abc"}, NULL},
    {OBJECT("\"s\":{\"enum\":[\"1\",\"on\"]}", ""), {"s", "1"}, "{\"s\": \"1\"}"},
    {OBJECT("\"s\":{\"enum\":[\"1\",\"on\"]}", ""), {"s", "\"1\""}, NULL},
    {OBJECT("\"s\":{\"enum\":[\"1\",1]}", ""), {"s", "1"}, "{\"s\": 1}"},
    {OBJECT("\"s\":{\"const\":\"null\"}", ""), {"s", "null"}, "{\"s\": \"null\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"minLength\":2}", ""), {"s", "a/<</"}, "{\"s\": \"a/<</\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"minLength\":2}", ""), {"s", "a"}, NULL},
    {OBJECT("\"s\":{\"type\":\"string\",\"minLength\":2}", ""),
     {"s", "\xc3\xa9\xc3\xa9<b>"},
     "{\"s\": \"\xc3\xa9\xc3\xa9<b>\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"maxLength\":3}", ""), {"s", "<<a"}, "{\"s\": \"<<a\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"maxLength\":3}", ""), {"s", "abcd"}, NULL},
    {OBJECT("\"s\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1}", ""),
     {"s", "\xc3\xa9"},
     "{\"s\": \"\xc3\xa9\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"a+\"}", ""), {"s", "x\naay"}, "{\"s\": \"x\\naay\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"a+\"}", ""), {"s", "xy"}, NULL},
    {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"^[^b]$\"}", ""), {"s", "<"}, NULL},
    {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"ab\",\"minLength\":5}", ""),
     {"s", "\n\xc3\xa9"
           "ab\""},
     "{\"s\": \"\\n\xc3\xa9"
     "ab\\\"\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"ab\",\"minLength\":5}", ""), {"s", "xaba"}, NULL},
    {OBJECT("\"s\":{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^2\"}", ""),
     {"s", "2026-11-28"},
     "{\"s\": \"2026-11-28\"}"},
    {OBJECT("\"s\":{\"type\":\"string\",\"format\":\"date\"}", ""), {"s", "2026-01-31"}, "{\"s\": \"2026-01-31\"}"},
    {OBJECT("\"s\":{\"$ref\":\"#/$defs/a\"},\"l\":{\"items\":{\"$ref\":\"#/$defs/a\"}}",
            ",\"$defs\":{\"a\":{\"type\":\"string\",\"maxLength\":2}}"),
     {"s", "12", "l", "[\"12\"]"},
     "{\"s\": \"12\", \"l\": [\"12\"]}"},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":" OBJECT(TEXT, "") "}}", {"s", "1"}, "{\"s\": \"1\"}"},
    {OBJECT("\"s\":{\"allOf\":[{\"type\":\"string\"},{\"maxLength\":2}]}", ""), {"s", "12"}, "{\"s\": \"12\"}"},
    {OBJECT("\"s\":{\"anyOf\":[{\"enum\":[\"1\"]},{\"type\":\"string\",\"minLength\":2}]}", ""),
     {"s", "12"},
     "{\"s\": \"12\"}"},
    {OBJECT("\"s\":{\"anyOf\":[{\"enum\":[\"1\"]},{\"type\":\"string\",\"minLength\":2}]}", ""), {"s", "2"}, NULL},
    {OBJECT(TEXT, ",\"additionalProperties\":{\"type\":\"string\"}"),
     {"s", "a", "free", "1"},
     "{\"s\": \"a\", \"free\": \"1\"}"},
    {OBJECT(TEXT, ",\"additionalProperties\":{\"type\":\"string\"}"), {"s2", "1", "s2", "2"}, "{\"s2\": \"1\"}"},
    {OBJECT(TEXT, ",\"additionalProperties\":{\"type\":\"string\"}"), {"s", "a", "", "1"}, NULL},
    {OBJECT(TEXT, ",\"additionalProperties\":{\"type\":\"string\"}"), {"s", "a", "b<c", "1"}, NULL},
    {OBJECT(TEXT, ",\"additionalProperties\":{\"type\":\"string\"}"), {"a", "a", "s", "1"}, NULL},
    {NULL, {"any", "[1, null]", "s", "\"a\""}, "{\"any\": [1, null], \"s\": \"a\"}"},
    {"{\"type\":\"object\"}", {"any", "1"}, "{\"any\": 1}"},
    {"{\"type\":\"object\",\"maxProperties\":1}", {"any", "1", "b", "2"}, NULL},
};

static void calls_in_tags_are_bound(void **state)
{
    (void)state;
    for (const call_format *f = call_formats; f->name; f++)
        for (size_t i = 0; f->writing.key && i < sizeof calls / sizeof *calls; i++) {
            grammar *g;
            buf text = {0}, arguments = {0};
            err e = {0};
            assert_ok(compile(&g, f, calls[i].schema, &e), &e);
            write_call(f, calls[i].pairs, &text);
            const bool whole = rig_match(g, buf_span(&text)) == RIG_WHOLE;
            if (whole != (calls[i].arguments != NULL)) fail_msg("%s, %zu: %s", f->name, i, buf_cstr(&text));
            if (whole) read_back(f, calls[i].schema, buf_span(&text), &arguments);
            if (whole && strcmp(buf_cstr(&arguments), calls[i].arguments) != 0)
                fail_msg("%s, %zu: %s\n not %s", f->name, i, buf_cstr(&arguments), calls[i].arguments);
            if (whole) expect_valid(calls[i].schema, buf_span(&arguments));
            /* nothing passes for a text that would end before its end */
            text.n = 0;
            write_call(f, (const char *[]){"s", "a\n</parameter>\n</arg_value>\nb", NULL}, &text);
            assert_int_equal(rig_match(g, buf_span(&text)), RIG_NEVER);
            grammar_drop(g);
            buf_free(&text);
            buf_free(&arguments);
        }
}

static void refusals_name_the_keyword(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"anyOf\":[{\"type\":\"object\"}]}", "anyOf"},
        {"{\"allOf\":[{\"type\":\"object\"}]}", "allOf"},
        {"{\"type\":\"array\"}", "type"},
        {"{\"enum\":[{}]}", "enum"},
        {"{\"$ref\":\"#/$defs/a\",\"required\":[\"x\"],\"$defs\":{\"a\":{}}}", "required"},
        {"{\"$ref\":\"#\"}", "$ref"},
        {"{\"$ref\":\"#/$defs/b\"}", "#"},
        {"{\"patternProperties\":{\"a\":{}}}", "patternProperties"},
        {"{\"propertyNames\":{\"maxLength\":3}}", "propertyNames"},
        {"{\"minProperties\":3}", "minProperties"},
        {OBJECT("\"a>b\":{}", ""), "a>b"},
        {OBJECT("\"\":{}", ""), "cannot be written in a tag"},
        {OBJECT("\" a\":{}", ""), "cannot be written in a tag"},
        {OBJECT("\"s\":{\"const\":\"a</parameter></arg_value>\"}", ""), "#/properties/s/const"},
        {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"^<a>$\"}", ""), "#/properties/s/pattern"},
        {OBJECT("\"s\":{\"type\":\"string\",\"pattern\":\"^a$\",\"minLength\":5}", ""), "minLength"},
        {OBJECT("\"s\":{\"type\":\"string\",\"not\":{}}", ""), "not"},
        {OBJECT("\"s\":{\"type\":\"string\",\"minLength\":2000000}", ""), "MiB"},
        {OBJECT("\"n\":{\"type\":\"integer\",\"multipleOf\":1009}", ""), "multipleOf"},
        {OBJECT("\"s\":{\"allOf\":[{\"const\":\"a\"},{\"const\":\"b\"}]}", ",\"required\":[\"s\"]"),
         "nothing satisfies the schema: #/properties/s"},
    };
    for (const call_format *f = call_formats; f->name; f++)
        for (size_t i = 0; f->writing.key && i < sizeof cases / sizeof *cases; i++) {
            grammar *g;
            err e = {0};
            if (compile(&g, f, cases[i][0], &e) == OK) fail_msg("%s: %s", f->name, cases[i][0]);
            assert_null(g);
            if (!strstr(e.msg, cases[i][1])) fail_msg("\"%s\" does not say \"%s\"", e.msg, cases[i][1]);
        }
}

/* Drawn texts come back as arguments that satisfy the schema. */
static void drawn_calls_keep_to_their_schema(void **state)
{
    (void)state;
    static const char schema[] = OBJECT(
        "\"s\":{\"type\":\"string\",\"maxLength\":9},\"n\":{\"type\":\"integer\",\"minimum\":10,\"maximum\":99},"
        "\"e\":{\"enum\":[\"1\",\"true\",\"{}\"]},\"l\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
        "\"maxLength\":3},"
        "\"maxItems\":2}",
        ",\"required\":[\"s\",\"e\"],\"additionalProperties\":false");
    for (const call_format *f = call_formats; f->name; f++) {
        grammar *g;
        err e = {0};
        int whole = 0;
        if (!f->writing.key) continue;
        assert_ok(compile(&g, f, schema, &e), &e);
        for (uint64_t seed = 0; seed < 20; seed++) {
            buf text = {0}, arguments = {0};
            json *j;
            const bool ended = rig_draw(g, seed, 500, &text);
            const char *second = ended ? memmem(text.p, text.n, f->writing.after, strlen(f->writing.after)) : NULL;
            if (ended && second) {
                text.n = (size_t)((const uint8_t *)second - text.p) + strlen(f->writing.after);
                read_back(f, schema, buf_span(&text), &arguments);
                expect_valid(schema, buf_span(&arguments));
                assert_ok(json_parse(&j, buf_span(&arguments), "arguments", &e), &e);
                assert_int_equal(json_type(json_get(j, "s")), JSON_STRING);
                assert_int_equal(json_type(json_get(j, "e")), JSON_STRING);
                assert_non_null(strstr("1 true {}", json_str(json_get(j, "e"), "none")));
                if (json_get(j, "n")) assert_in_range(json_int(json_get(j, "n"), 0), 10, 99);
                assert_true(json_count(json_get(j, "l")) <= 2 && json_count(j) <= 4);
                json_free(j);
                whole++;
            }
            buf_free(&text);
            buf_free(&arguments);
        }
        assert_true(whole > 10);
        grammar_drop(g);
    }
}

/* What templates of models write for calls is what the form allows. */
static void templates_write_the_same(void **state)
{
    (void)state;
    static const char *const of[][2] = {
        {"Qwen3-Coder", "qwen3-coder"}, {"Qwen3.5-4B", "qwen3-coder"}, {"GLM-4.6", "glm"},
        {"GLM-4.7-Flash", "glm-4.7"},   {"GLM-5.2", "glm-4.7"},        {"ByteDance-Seed-OSS", "seed-oss"}};
    static const char said_as[] =
        "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["
        "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"s\":\"5\\n <b>\\\"\",\"n\":-12%s"
        "}}},{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]";
    static const char schema[] = OBJECT(TEXT ",\"n\":{\"type\":\"integer\"},\"o\":{\"type\":\"object\"}", "");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const bool objects = strcmp(of[i][1], "seed-oss") != 0; /* that template writes them as Python does */
        char name[200], messages[1000];
        snprintf(messages, sizeof messages, said_as, objects ? ",\"o\":{\"k\":[1,\"\xc3\xa9\"]}" : "");
        snprintf(name, sizeof name, "chat/llama.cpp-templates/%s.jinja", of[i][0]);
        const char *path = shared_path(name);
        if (!path) {
            skip_msg("no shared data: templates of models");
            return;
        }
        chat_template *c;
        jinja_output out = {0};
        json *said, *tools;
        grammar *g;
        buf expected = {0};
        err e = {0};
        assert_ok(json_parse(&said, span_str(messages), "messages", &e), &e);
        buf declared = {0};
        buf_printf(&declared, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":%s}}]", schema);
        assert_ok(json_parse(&tools, buf_span(&declared), "tools", &e), &e);
        assert_ok(chat_options_open(&c, &(chat_options){path, NULL}, NULL, &e), &e);
        const call_format *f = chat_template_calls(c);
        assert_string_equal(f->name, of[i][1]);
        assert_ok(chat_template_apply(c, &(chat_input){.messages = said, .tools = tools}, &out, &e), &e);
        const char *o = objects ? "o" : NULL;
        write_call(f, (const char *[]){"s", "5\n <b>\"", "n", "-12", o, "{\"k\": [1, \"\xc3\xa9\"]}", NULL}, &expected);
        if (f->writing.between) buf_str(&expected, f->writing.between);
        write_call(f, (const char *[]){NULL}, &expected);
        if (!strstr(buf_cstr(&out.text), buf_cstr(&expected)))
            fail_msg("%s does not write\n%s\n but\n%s", of[i][0], buf_cstr(&expected), buf_cstr(&out.text));
        assert_ok(compile(&g, f, schema, &e), &e);
        assert_int_equal(rig_match(g, buf_span(&expected)), RIG_WHOLE);
        grammar_drop(g);
        chat_template_close(c);
        jinja_output_free(&out);
        json_free(said);
        json_free(tools);
        buf_free(&declared);
        buf_free(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_tags_are_bound),
        cmocka_unit_test(refusals_name_the_keyword),
        cmocka_unit_test(drawn_calls_keep_to_their_schema),
        cmocka_unit_test(templates_write_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
