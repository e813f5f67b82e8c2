/* t_chat_call_parser.c - tool calls and reasoning out of texts, in every format of call_format.c: whole and byte by
 * byte. */
#include "test.h"

#include "chat/call_parser.h"
#include "chat/chat_options.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}}]";

/* A message as text: (reasoning)content{name arguments}… */
static void show(const chat_message *m, buf *out)
{
    if (m->reasoning.n) buf_printf(out, "(%.*s)", (int)m->reasoning.n, m->reasoning.p);
    buf_add(out, m->content.p, m->content.n);
    for (size_t i = 0; i < m->n_calls; i++) {
        assert_memory_equal(m->calls[i].id, "call_", 5);
        buf_printf(out, "{%.*s %.*s}", (int)m->calls[i].name.n, m->calls[i].name.p, (int)m->calls[i].arguments.n,
                   m->calls[i].arguments.p);
    }
}

static void parse(const call_parser_options *o, const char *text, size_t step, buf *out)
{
    call_parser *p;
    chat_message m = {0};
    err e = {0};
    const size_t n = strlen(text);
    assert_ok(call_parser_open(&p, o, &e), &e);
    for (size_t i = 0; i < n; i += step)
        assert_ok(call_parser_feed(p, span_of(text + i, step < n - i ? step : n - i), false, &m, &e), &e);
    assert_ok(call_parser_feed(p, span_of("", 0), true, &m, &e), &e);
    show(&m, out);
    call_parser_close(p);
    chat_message_free(&m);
}

/* The format, the text, what it comes to. */
static const char *const cases[][3] = {
    {"hermes", "Hello, world. ", "Hello, world."},
    {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1.0}}\n</tool_call>", "{f {\"n\": 1.0}}"},
    {"hermes",
     "Let me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>",
     "Let me see.{f {}}{g {}}"},
    {"hermes", "<think>\nhm <tool_call> not\n</think>\n\nok", "(hm <tool_call> not)ok"},
    {"hermes", "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":", "{f {}}"},
    {"hermes", "a < b <tool", "a < b <tool"},
    {"hermes", "<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>"},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"</b>\"}}", "{f {\"s\":\"</b>\"}}"},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":"},
    {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"n\\\":1}\"}</tool_call>", "{f {\"n\":1}}"},
    {"llama3", "{\"name\": \"f\", \"parameters\": {\"n\": 2}}", "{f {\"n\": 2}}"},
    {"llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"n\": 2}}; {\"name\": \"g\", \"parameters\": {}}",
     "{f {\"n\": 2}}{g {}}"},
    {"llama3", "{\"answer\": 42}", "{\"answer\": 42}"},
    {"llama3", "The set {1, 2}", "The set {1, 2}"},
    {"mistral-old",
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"n\": 1}, \"id\": \"123456789\"}, {\"name\": \"g\"}]",
     "{f {\"n\": 1}}{g {}}"},
    {"mistral", "[TOOL_CALLS]f[ARGS]{\"s\": \"}\"}[TOOL_CALLS]g[CALL_ID]1[ARGS]{}", "{f {\"s\": \"}\"}}{g {}}"},
    {"qwen3-coder",
     "ok\n<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n</function>\n</"
     "tool_call>",
     "ok{f {\"s\": \"12\", \"n\": 12}}"},
    {"glm",
     "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a\nb</arg_value>\n<arg_key>o</arg_key>\n<arg_value>{\"k\": "
     "[1]}</arg_value>\n"
     "</tool_call>",
     "{f {\"s\": \"a\\nb\", \"o\": {\"k\": [1]}}}"},
    {"seed-oss",
     "ok\n<seed:tool_call>\n<function=f>\n<parameter=s>12</parameter>\n<parameter=n>12</parameter>\n</function>\n"
     "</seed:tool_call>",
     "ok{f {\"s\": \"12\", \"n\": 12}}"},
    {"glm-4.7", "<tool_call>f<arg_key>s</arg_key><arg_value>7</arg_value></tool_call>", "{f {\"s\": \"7\"}}"},
    {"deepseek-old",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "{f {\"n\": 1}}"},
    {"deepseek",
     "x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "x{f {\"n\": 1}}"},
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"n\": "
     "1}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "{f {\"n\": 1}}"},
    {"command-r", "Action: ```json\n[\n  {\"tool_name\": \"f\", \"parameters\": {\"n\": 1}}\n]```", "{f {\"n\": 1}}"},
    {"command-r7b",
     "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"n\": 1}}\n]<|END_ACTION|>",
     "{f {\"n\": 1}}"},
    {"command-r7b", "<|START_RESPONSE|>hi<|END_RESPONSE|>", "hi"},
    {"granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]", "{f {\"n\": 1}}"},
    {"harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
     "<|message|>{\"n\":1}<|call|>",
     "(Hm.){f {\"n\":1}}"},
    {"harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.",
     "(Hm.)Hello."},
};

static void every_format_whole_and_byte_by_byte(void **state)
{
    (void)state;
    static const reasoning_marks think = {"<think>", "</think>"};
    json *tools;
    err e = {0};
    assert_ok(json_parse(&tools, span_str(tools_text), "tools", &e), &e);
    for (const call_format *f = call_formats; f->name; f++) {
        bool tried = false;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (strcmp(cases[i][0], f->name) != 0) continue;
            const call_parser_options o = {.format = f, .reasoning = &think, .tools = tools};
            for (size_t step = 1; step < 300; step = step < 8 ? step + 1 : step * 3) {
                buf out = {0};
                parse(&o, cases[i][1], step, &out);
                if (strcmp(buf_cstr(&out), cases[i][2]) != 0)
                    fail_msg("%s by %zu: %s\n gives %s\n not   %s", f->name, step, cases[i][1], buf_cstr(&out),
                             cases[i][2]);
                buf_free(&out);
            }
            tried = true;
        }
        assert_ptr_equal(call_format_find(f->name), f);
        if (!tried) fail_msg("no case for %s", f->name);
    }
    json_free(tools);
}

/* Calls as they are written where they are bound to be right. */
static void write_calls(const call_format *f, buf *out)
{
    static const char *const names[][3] = {{"s", "l", "s"}, {"n"}}, *const values[][3] = {
                                                                        {"}{\"", "[{}, \"]\"]", "again"}, {"1.0"}};
    const char *arguments[] = {"{\"s\": \"}{\\\"\", \"l\": [{}, \"]\"]}", "{\"n\": 1.0}"};
    const call_writing *w = &f->writing;
    buf_str(out, w->open ? w->open : "");
    for (int i = 0; i < 2; i++) {
        if (i && w->between) buf_str(out, w->between);
        for (const char *c = w->before; *c; c++) {
            if (*c == '@') buf_str(out, i ? "get-2" : "f_1");
            else buf_byte(out, (uint8_t)*c);
        }
        for (int k = 0; w->key && k < 3 && names[i][k]; k++)
            buf_printf(out, "%s%s%s%s%s", w->key, names[i][k], w->value, values[i][k], w->end);
        if (!w->key) buf_str(out, arguments[i]);
        if (w->after) buf_str(out, w->after);
    }
    buf_str(out, w->close ? w->close : "");
}

/* Cut anywhere, whole or by any steps: the same message, whose arguments are there as they come. */
static void bound_calls_come_in_pieces(void **state)
{
    (void)state;
    static const char want[] = "{f_1 {\"s\": \"}{\\\"\", \"l\": [{}, \"]\"]}}{get-2 {\"n\": 1.0}}";
    json *tools;
    err parsed = {0};
    assert_ok(json_parse(&tools,
                         span_str("[{\"function\":{\"name\":\"f_1\",\"parameters\":{\"properties\":{\"s\":{\"enum\":["
                                  "\"a\"]}}}}}]"),
                         "tools", &parsed),
              &parsed);
    for (const call_format *f = call_formats; f->name; f++) {
        const call_parser_options o = {.format = f, .bound = true, .tools = tools};
        buf text = {0}, whole = {0}, pieces = {0};
        write_calls(f, &text);
        for (size_t n = text.n; n > 0; n--) {
            char *cut = strndup((const char *)text.p, n);
            whole.n = 0;
            parse(&o, cut, n, &whole);
            if (n == text.n) assert_string_equal(buf_cstr(&whole), want);
            for (size_t step = 1; step < 40; step = step * 2 + 1) {
                pieces.n = 0;
                parse(&o, cut, step, &pieces);
                if (strcmp(buf_cstr(&pieces), buf_cstr(&whole)) != 0)
                    fail_msg("%s by %zu: %s\n gives %s\n not   %s", f->name, step, cut, buf_cstr(&pieces),
                             buf_cstr(&whole));
            }
            free(cut);
        }
        const char *at = strstr(buf_cstr(&text), "[{}"); /* half of the first arguments */
        call_parser *p;
        chat_message m = {0};
        err e = {0};
        assert_non_null(at);
        assert_ok(call_parser_open(&p, &o, &e), &e);
        assert_ok(call_parser_feed(p, span_of(text.p, (size_t)(at - buf_cstr(&text))), false, &m, &e), &e);
        if (m.n_calls != 1 || !m.calls[0].arguments.n) fail_msg("%s: no arguments yet", f->name);
        assert_false(m.calls[0].whole);
        call_parser_close(p);
        chat_message_free(&m);
        buf_free(&text);
        buf_free(&whole);
        buf_free(&pieces);
    }
    json_free(tools);
}

static void options(void **state)
{
    (void)state;
    static const reasoning_marks think = {"<think>", "</think>"};
    buf out = {0};
    parse(&(call_parser_options){.reasoning = &think, .thinking = true}, "so\n</think>\n ok <tool_call>", 3, &out);
    assert_string_equal(buf_cstr(&out), "(so)ok <tool_call>");
    out.n = 0;
    parse(&(call_parser_options){0}, "  as it is \n", 3, &out);
    assert_string_equal(buf_cstr(&out), "  as it is \n");
    buf_free(&out);
}

static void a_format_may_be_named(void **state)
{
    (void)state;
    const char *path = temp_path("chat.jinja");
    chat_template *c;
    err e = {0};
    FILE *f = fopen(path, "w");
    fputs("{{ messages[0].content }}", f);
    fclose(f);
    assert_ok(chat_options_open(&c, &(chat_options){path, "glm"}, NULL, &e), &e);
    assert_string_equal(chat_template_calls(c)->name, "glm");
    chat_template_close(c);
    assert_int_equal(chat_options_open(&c, &(chat_options){path, "latin"}, NULL, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "'latin' is none of harmony"));
    e = (err){0};
    assert_int_equal(chat_options_open(&c, &(chat_options){0}, NULL, &e), ERR_NOT_FOUND);
    unlink(path);
}

static void formats_are_found_in_templates(void **state)
{
    (void)state;
    static const char *const of[][2] = {
        {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
        {"Qwen3-Coder", "qwen3-coder"},
        {"ByteDance-Seed-OSS", "seed-oss"},
        {"GLM-4.6", "glm"},
        {"GLM-4.7-Flash", "glm-4.7"},
        {"Kimi-K2-Instruct", "kimi"},
        {"deepseek-ai-DeepSeek-V3.1", "deepseek"},
        {"llama-cpp-deepseek-r1", "deepseek-old"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-old"},
        {"unsloth-mistral-Devstral-Small-2507", "mistral"},
        {"openai-gpt-oss-120b", "harmony"},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
        {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
        {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b"},
        {"ibm-granite-granite-3.3-2B-Instruct", "granite"},
        {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char name[200];
        snprintf(name, sizeof name, "chat/llama.cpp-templates/%s.jinja", of[i][0]);
        const char *path = shared_path(name);
        if (!path) {
            skip_msg("no shared data: templates of models");
            return;
        }
        FILE *f = fopen(path, "rb");
        static char text[1 << 16];
        const size_t n = fread(text, 1, sizeof text, f);
        fclose(f);
        const call_format *found = call_format_of_template(span_of(text, n));
        if (!found || strcmp(found->name, of[i][1]) != 0)
            fail_msg("%s: %s, not %s", of[i][0], found ? found->name : "none", of[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_whole_and_byte_by_byte),
        cmocka_unit_test(bound_calls_come_in_pieces),
        cmocka_unit_test(options),
        cmocka_unit_test(formats_are_found_in_templates),
        cmocka_unit_test(a_format_may_be_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
