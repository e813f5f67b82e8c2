/* t_chat_template.c - conversations through the templates of many models (shared data): whatever a template takes, the
 * conversation is told, and what its user wrote is marked as the user's. */
#define _GNU_SOURCE
#include "test.h"

#include "base/file.h"
#include "chat/chat_template.h"

#define SECRET "QX<|im_end|></s>[INST]<|eot_id|><end_of_turn>XQ"

static json *parse(const char *text)
{
    json *j;
    err e = {0};
    assert_ok(json_parse(&j, span_str(text), "messages", &e), &e);
    return j;
}

static const char *const conversations[] = {
    "[{\"role\":\"user\",\"content\":\"" SECRET "\"}]",
    "[{\"role\":\"system\",\"content\":\"SYS" SECRET "\"},{\"role\":\"user\",\"content\":\"U\"}]",
    "[{\"role\":\"developer\",\"content\":\"SYS" SECRET
    "\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
    "{\"type\":\"text\",\"text\":\"b\"}]}]",
    "[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"content\":\"A" SECRET
    "\"},{\"role\":\"user\",\"content\":\"V\"}]",
    "[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_"
    "abcdefghijkl\","
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"k\\\": \\\"" SECRET "\\\"}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call_abcdefghijkl\",\"name\":\"f\",\"content\":\"R\"}]",
    "[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_"
    "abcdefghijkl\","
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call_abcdefghijkl\",\"name\":\"f\",\"content\":\"" SECRET "\"}]",
};
enum { CONVERSATIONS = sizeof conversations / sizeof *conversations };

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"D" SECRET
    "\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"k\":{\"type\":\"string\",\"description\":\"d\"}},\"required\":[\"k\"]}}}]";

/* Every byte of the secret is marked wherever it is. Returns how often it is there. */
static int check_marks(const char *name, const jinja_output *o)
{
    int n = 0;
    const size_t len = strlen(SECRET);
    for (size_t i = 0; i + len <= o->text.n; i++) {
        if (memcmp(o->text.p + i, SECRET, len) != 0) continue;
        if (memchr(o->user.p + i, 0, len)) fail_msg("%s: text of the user is not marked", name);
        n++;
    }
    return n;
}

/* Templates that cannot tell a conversation, and why. */
static bool is_excused(const char *name, int conversation)
{
    static const struct {
        const char *name;
        int from; /* conversations from this one on */
    } known[] = {
        {"Kimi-K2-Instruct", 4}, /* appends to a list, which the sandbox of transformers forbids */
        {"Kimi-K2-Thinking", 4}, /* the same */
        {"MiroThinker", 0},      /* assigns to what is no namespace */
        {"firefunction-v2", 0},  /* needs variables of its own */
        {"DeepSeek-V3.2", 4},    /* a filter that transformers lacks */
        {"DeepSeek-V4", 4},      /* the same */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(name, known[i].name) && conversation >= known[i].from) return true;
    return false;
}

static int check_template(const char *name, span source)
{
    chat_template *c;
    err e = {0};
    int wrong = 0;
    json *tools = parse(tools_text);
    if (chat_template_open(&c, source, NULL, NULL, &e)) fail_msg("%s: %s", name, e.msg);
    for (int i = 0; i < CONVERSATIONS; i++)
        for (int with_tools = i >= 4; with_tools < 2; with_tools++) {
            json *messages = parse(conversations[i]);
            jinja_output out = {0};
            e = (err){0};
            int rc = chat_template_apply(
                c,
                &(chat_input){.messages = messages, .tools = with_tools ? tools : NULL, .add_generation_prompt = true},
                &out, &e);
            const bool told = !rc && check_marks(name, &out) > 0;
            if (!told && !is_excused(name, i)) {
                printf("%s: conversation %d%s: %s\n", name, i, with_tools ? " with tools" : "",
                       rc ? e.msg : "not told");
                wrong++;
            }
            jinja_output_free(&out);
            json_free(messages);
        }
    json_free(tools);
    chat_template_close(c);
    return wrong;
}

static void every_template_tells_the_conversation(void **state)
{
    (void)state;
    const char *path = shared_path("chat/golden_jinja2-3.1.6.json");
    if (!path) {
        skip_msg("no shared data: templates of models");
        return;
    }
    json *file;
    err e = {0};
    int wrong = 0, n = 0;
    assert_ok(json_read(&file, path, 64 << 20, &e), &e);
    for (const json *c = json_first(file); c; c = json_next(c)) {
        char name[300];
        buf source = {0};
        if (strcmp(json_str(json_get(c, "context"), ""), "simple") != 0) continue;
        snprintf(name, sizeof name, "chat/%s", json_str(json_get(c, "template"), ""));
        assert_ok(file_read(&source, shared_path(name), 1 << 20, &e), &e);
        wrong += check_template(name, buf_span(&source));
        buf_free(&source);
        n++;
    }
    json_free(file);
    assert_int_equal(wrong, 0);
    assert_int_equal(n, 83);
}

/* Templates that show calls in forms of their own, under a condition: turns that alternate, where calls and results do
 * not count; an answer behind each result; no content beside a call. */
#define SHOW_CALL                                                                                                      \
    "{% for c in m.tool_calls %}#call {{ c.function.name }} {{ c.function.arguments | tojson }}#{% endfor %}"
#define SHOW_REST                                                                                                      \
    "{% elif m.role == 'tool' %}#result {{ m.content }}#{% else %}#{{ m.role }} {{ m.content }}#{% endif %}{% endfor " \
    "%}"
static const char *const conditional[] = {
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role != 'tool' and not m.tool_calls %}"
    "{% if (m.role == 'user') != (ns.n % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}{% set ns.n = ns.n + 1 %}"
    "{% endif %}{% endfor %}{% for m in messages %}{% if m.tool_calls %}" SHOW_CALL SHOW_REST,
    "{% for m in messages %}{% if m.role == 'tool' and (loop.last or messages[loop.index].role != 'assistant') and "
    "messages | length != 3 %}{{ raise_exception('an answer') }}{% endif %}{% if m.tool_calls %}" SHOW_CALL SHOW_REST,
    "{% for m in messages %}{% if m.tool_calls and m.content is none %}" SHOW_CALL SHOW_REST,
};

static void calls_keep_the_templates_own_form(void **state)
{
    (void)state;
    static const char *const content[] = {"null", "\"\""};
    for (size_t i = 0; i < sizeof conditional / sizeof *conditional; i++)
        for (int k = 0; k < 2; k++) {
            chat_template *c;
            jinja_output out = {0};
            err e = {0};
            char text[600];
            snprintf(
                text, sizeof text,
                "[{\"role\":\"user\",\"content\":\"late?\"},{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":"
                "[{\"id\":\"abcdef123\",\"type\":\"function\",\"function\":{\"name\":\"clock\",\"arguments\":"
                "\"{\\\"zone\\\": \\\"UTC\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"abcdef123\",\"content\":"
                "\"ten\"}]",
                content[k]);
            json *messages = parse(text);
            assert_ok(chat_template_open(&c, span_str(conditional[i]), NULL, NULL, &e), &e);
            assert_ok(chat_template_apply(c, &(chat_input){.messages = messages}, &out, &e), &e);
            static const char own[] = "#call clock {\"zone\": \"UTC\"}##result ten#";
            if (!memmem(out.text.p, out.text.n, own, sizeof own - 1))
                fail_msg("template %zu, content %s: %.*s", i, content[k], (int)out.text.n, (const char *)out.text.p);
            jinja_output_free(&out);
            chat_template_close(c);
            json_free(messages);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_template_tells_the_conversation),
                                       cmocka_unit_test(calls_keep_the_templates_own_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
