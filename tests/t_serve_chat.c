/* t_serve_chat.c - POST /v1/chat/completions and /apply-template without sockets: messages put right, fields, refusals,
 * streams, log-probabilities, tool calls, reasoning. */
#include "tests/serve_rig.h"

static const char chat_source[] =
    "{{ bos_token }}{% for m in messages %}<|x|>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{{ c.function.arguments|tojson }}</tool_call>{% endfor "
    "%}"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ '\n' }}{% endfor %}"
    "{% if tools %}[{{ tools|map(attribute='function')|map(attribute='name')|join(',') }}]{% endif %}"
    "{% if add_generation_prompt %}assistant:{% if think %}<think>\n{% endif %}{% endif %}{# </think> #}";

static char body[1 << 16];

/* A chat whose user says "hi", with more fields. */
static int chat(const char *fields)
{
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s%s}", *fields ? "," : "",
             fields);
    return call("POST", "/v1/chat/completions", body);
}

static int chat_of(const char *messages, const char *fields)
{
    snprintf(body, sizeof body, "{\"messages\":%s%s%s}", messages, *fields ? "," : "", fields);
    return call("POST", "/v1/chat/completions", body);
}

/* What the template makes of messages. */
static void expect_prompt(const char *messages, const char *fields, const char *prompt)
{
    snprintf(body, sizeof body, "{\"messages\":%s%s%s}", messages, *fields ? "," : "", fields);
    if (call("POST", "/apply-template", body) != 200) fail_msg("%s", reply);
    json *j = parsed();
    assert_string_equal(json_str(json_get(j, "prompt"), ""), prompt);
    json_free(j);
}

static void a_reply_has_the_shape_of_the_api(void **state)
{
    (void)state;
    fake.text = "hello";
    assert_int_equal(chat(""), 200);
    expect_part("\"object\":\"chat.completion\"");
    expect_part("\"id\":\"chatcmpl-");
    expect_part(
        "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hello\",\"refusal\":null},\"logprobs\":null,"
        "\"finish_reason\":\"stop\"}");
    expect_part("\"usage\":{\"prompt_tokens\":");
    assert_string_equal(fake.dec, "<0><2>user:hi\nassistant:");
    assert_int_equal(chat("\"n\":2,\"max_completion_tokens\":3"), 200);
    expect_part("\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"hel\"");
    expect_part("\"finish_reason\":\"length\"");
    fake.text = NULL; /* the context is the bound */
    assert_int_equal(chat(""), 200);
    expect_part("\"finish_reason\":\"length\"");
    expect_part("\"total_tokens\":128");
    assert_int_equal(call("POST", "/chat/completions",
                          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                          "\"max_tokens\":1}"),
                     200);
}

static void messages_are_put_right(void **state)
{
    (void)state;
    expect_prompt("[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"u\"}]", "",
                  "<s><|x|>system:d\n<|x|>user:u\nassistant:");
    expect_prompt(
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]", "",
        "<s><|x|>user:a\nb\nassistant:");
    expect_prompt(
        "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}]",
        "", "<s><|x|>user:u\n<|x|>assistant:<tool_call>f{\"a\": 1}</tool_call>\n<|x|>tool:r\nassistant:");
    expect_prompt("[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_"
                  "content\":\"t\"}]",
                  "\"add_generation_prompt\":false", "<s><|x|>user:u\n<|x|>assistant:a(t)\n");
    expect_prompt("[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"The sky \"}]",
                  "\"continue_final_message\":true", "<s><|x|>user:u\n<|x|>assistant:The sky ");
    expect_prompt("[{\"role\":\"user\",\"content\":\"u\"}]",
                  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", "<s><|x|>user:u\n[f]assistant:");
    expect_prompt("[{\"role\":\"user\",\"content\":\"u\"}]",
                  "\"tool_choice\":\"none\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
                  "<s><|x|>user:u\nassistant:");
    expect_prompt("[{\"role\":\"user\",\"content\":\"u\"}]", "\"chat_template_kwargs\":{\"think\":true}",
                  "<s><|x|>user:u\nassistant:<think>\n");
    /* text of the user is never a special token */
    fake.text = "x";
    assert_int_equal(chat_of("[{\"role\":\"user\",\"content\":\"<|x|><s>\"}]", ""), 200);
    assert_string_equal(fake.dec, "<0><2>user:<|x|><s>\nassistant:");
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"[]", "", "messages"},
        {"{}", "", "messages"},
        {"null", "", "messages"},
        {"[7]", "", "messages"},
        {"[{\"content\":\"a\"}]", "", "messages"},
        {"[{\"role\":\"pope\",\"content\":\"a\"}]", "", "messages"},
        {"[{\"role\":\"user\"}]", "", "messages"},
        {"[{\"role\":\"user\",\"content\":null}]", "", "messages"},
        {"[{\"role\":\"user\",\"content\":5}]", "", "content"},
        {"[{\"role\":\"user\",\"content\":\"a\",\"x\":1}]", "", "x"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]", "", "messages"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"y\":1}]}]", "", "y"},
        {"[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[]}]", "", "messages"},
        {"[{\"role\":\"assistant\",\"content\":null}]", "", "messages"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"tools\":{}", "tools"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"tools\":[{\"type\":\"function\"}]", "tools"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"tools\":[{\"type\":\"web\",\"function\":{\"name\":\"f\"}}]",
         "tools"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"tools\":[{\"function\":{\"name\":\"f\"},\"z\":1}]", "z"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"tool_choice\":\"required\"", "tool_choice"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"tool_choice\":\"maybe\"", "tool_choice"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]",
         "\"tools\":[{\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
         "\"g\"}}",
         "tool_choice"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"add_generation_prompt\":true,\"continue_final_message\":true",
         "continue_final_message"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"top_logprobs\":2", "top_logprobs"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"logprobs\":2", "logprobs"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"max_tokens\":0", "max_tokens"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"max_tokens\":5,\"max_completion_tokens\":5",
         "max_completion_tokens"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"prompt\":\"a\"", "prompt"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"echo\":true", "echo"},
        {"[{\"role\":\"user\",\"content\":\"a\"}]", "\"chat_template_kwargs\":3", "chat_template_kwargs"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = chat_of(bad[i][0], bad[i][1]);
        if (status != 400) printf("%s %s\n", bad[i][0], bad[i][1]);
        expect_error(400, status, bad[i][2], NULL);
    }
    expect_error(400, call("POST", "/v1/chat/completions", "{}"), "messages", "missing_field");
    static char longest[400];
    memset(longest, 'a', sizeof longest - 1);
    snprintf(body, sizeof body, "[{\"role\":\"user\",\"content\":\"%s\"}]", longest);
    char messages[500];
    memcpy(messages, body, sizeof messages);
    expect_error(400, chat_of(messages, ""), "prompt", "context_length_exceeded");
}

/* The texts of a member of all deltas, joined. */
static void join_deltas(buf *out, const char *member)
{
    for (char *p = reply; (p = strstr(p, "data: {")); p++) {
        json *j = NULL;
        err e = {0};
        assert_ok(json_parse(&j, span_of(p + 6, strcspn(p + 6, "\n")), "chunk", &e), &e);
        const json *delta = json_get(json_first(json_get(j, "choices")), "delta");
        buf_str(out, json_str(json_get(delta, member), ""));
        json_free(j);
    }
}

static void streams_add_up(void **state)
{
    (void)state;
    buf text = {0};
    fake.text = "hello";
    assert_int_equal(chat("\"stream\":true,\"stream_options\":{\"include_usage\":true}"), 200);
    assert_memory_equal(strstr(reply, "\"delta\":"), "\"delta\":{\"role\":\"assistant\",\"content\":\"h\"}", 42);
    expect_part("\"object\":\"chat.completion.chunk\"");
    expect_part("\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}");
    expect_part("\"choices\":[],\"usage\":{\"prompt_tokens\":");
    expect_part("data: [DONE]\n\n");
    join_deltas(&text, "content");
    assert_string_equal(buf_cstr(&text), "hello");
    text.n = 0;
    fake.text = "<think>\nab\n</think>\n\ncd";
    assert_int_equal(chat("\"stream\":true"), 200);
    join_deltas(&text, "content");
    join_deltas(&text, "reasoning_content");
    assert_string_equal(buf_cstr(&text), "cdab");
    buf_free(&text);
}

static void logprobs_have_the_form_of_chats(void **state)
{
    (void)state;
    fake.text = "a\xc3\xa9";
    assert_int_equal(chat("\"logprobs\":true,\"top_logprobs\":2"), 200);
    expect_part("\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":");
    expect_part("\"bytes\":[97],\"top_logprobs\":[{\"token\":");
    expect_part("{\"token\":\"\xef\xbf\xbd\",\"logprob\":");
    expect_part("\"bytes\":[195]");
    expect_part("\"refusal\":null}");
    assert_int_equal(chat("\"logprobs\":true"), 200);
    expect_part("\"top_logprobs\":[]");
    assert_int_equal(chat("\"logprobs\":true,\"stream\":true"), 200);
    expect_part("\"bytes\":[169]");
}

#define TOOL "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]"

static void calls_of_tools(void **state)
{
    (void)state;
    fake.text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}\n</tool_call>";
    assert_int_equal(chat(TOOL ",\"max_tokens\":99"), 200);
    expect_part("\"content\":null,\"tool_calls\":[{\"id\":\"call_");
    expect_part("\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1.0}\"}}]");
    expect_part("\"finish_reason\":\"tool_calls\"");
    assert_int_equal(chat(TOOL ",\"stream\":true"), 200);
    expect_part("\"tool_calls\":[{\"index\":0,\"id\":\"call_");
    expect_part("\"finish_reason\":\"tool_calls\"");
    assert_int_equal(chat(TOOL ",\"tool_choice\":\"none\""), 200);
    expect_part("\"content\":\"<tool_call>");
    expect_part("\"finish_reason\":\"stop\"");
    /* bound calls: the grammar is compiled, whatever the fake engine then says */
    fake.text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    assert_int_equal(chat(TOOL ",\"tool_choice\":\"required\""), 200);
    assert_non_null(fake.last.constraint);
    expect_part("\"finish_reason\":\"tool_calls\"");
    assert_int_equal(chat(TOOL ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"), 200);
    assert_non_null(fake.last.constraint);
    expect_error(400, chat(TOOL ",\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}"),
                 "tool_choice", NULL);
    expect_error(400, chat("\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"strange\"}}}]"),
                 "tools", NULL);
    /* a tool that can never be called, beside one that can */
    expect_error(400,
                 chat("\"tools\":[{\"function\":{\"name\":\"f\"}},{\"function\":{\"name\":\"never\",\"parameters\":{"
                      "\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}}}]"),
                 "tools", NULL);
    expect_part("tools: \\\"never\\\": nothing satisfies the schema: #/properties/a: false");
    assert_int_equal(chat(TOOL ",\"tool_choice\":\"required\",\"receipt\":true"), 200);
    expect_part(
        "\"tool_calls\":{\"form\":[{\"before\":\"<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \",");
    expect_part("\"after\":\"}\\n</tool_call>\",\"schema\":{\"type\":\"object\"}}],\"open\":\"\",\"between\":\"\\n\",");
    /* cut before a call has its name, behind one, or in one that the text before did not need: no mark is content */
    for (int n = 1; n < 31; n++) {
        char fields[400];
        snprintf(fields, sizeof fields, TOOL ",\"tool_choice\":\"required\",\"max_tokens\":%d", n);
        assert_int_equal(chat(fields), 200);
        expect_part("\"content\":\"\"");
    }
    assert_int_equal(chat(TOOL ",\"stop\":[\"{\"]"), 200);
    expect_part("\"content\":\"\"");
    fake.text = "so <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>";
    assert_int_equal(chat(TOOL ",\"max_tokens\":65"), 200);
    expect_part("\"content\":\"so\",\"tool_calls\"");
    assert_int_equal(chat(TOOL ",\"max_tokens\":20"), 200);
    expect_part("\"content\":\"so\"");
    fake.text = "x <tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"f\"}</tool_call>";
    assert_int_equal(chat(TOOL ",\"parallel_tool_calls\":false"), 200);
    expect_part("\"content\":\"x\",\"tool_calls\":[{");
    assert_null(strstr(strstr(reply, "call_") + 5, "call_"));
}

/* The texts of a member of the reply's events, joined; *n: how many. */
static void join_pieces(const char *member, buf *out, size_t *n)
{
    *n = 0;
    for (const char *at = reply; (at = strstr(at, member)); ++*n) {
        at += strlen(member);
        for (; *at != '"'; at++) {
            if (*at == '\\') at++;
            buf_byte(out, (uint8_t)*at);
        }
    }
}

static void arguments_come_in_pieces(void **state)
{
    (void)state;
    static const char *const posts[][3] = {
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stream\":true," TOOL "}",
         "\"arguments\":\""},
        {"/v1/responses", "{\"input\":\"a\",\"stream\":true,\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}",
         "\"delta\":\""},
        {"/v1/messages",
         "{\"max_tokens\":90,\"stream\":true,\"tools\":[{\"name\":\"f\"}],\"messages\":[{\"role\":\"user\","
         "\"content\":\"u\"}]}",
         "\"partial_json\":\""}};
    fake.text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1.0, \"}\"]}}\n</tool_call>";
    for (size_t i = 0; i < sizeof posts / sizeof *posts; i++) {
        buf all = {0};
        size_t n;
        assert_int_equal(call("POST", posts[i][0], posts[i][1]), 200);
        join_pieces(posts[i][2], &all, &n);
        assert_string_equal(buf_cstr(&all), "{\"a\": [1.0, \"}\"]}");
        if (n < 5) fail_msg("%s: only %zu pieces", posts[i][0], n);
        buf_free(&all);
    }
    assert_int_equal(call("POST", "/v1/responses", posts[1][1]), 200);
    assert_non_null(strstr(strstr(reply, "function_call_arguments.done"), "output_item.done"));
    assert_null(strstr(strstr(reply, "event: response.output_item.done") + 1, "event: response.output_item.done"));
    /* cut within them: what is there, and no broken input */
    assert_int_equal(chat(TOOL ",\"max_tokens\":48"), 200);
    expect_part("\"arguments\":\"{\\\"a\\\": [1.\"}}]");
    expect_part("\"finish_reason\":\"length\"");
    assert_int_equal(
        call("POST", "/v1/messages",
             "{\"max_tokens\":48,\"tools\":[{\"name\":\"f\"}],\"messages\":[{\"role\":\"user\",\"content\":"
             "\"u\"}]}"),
        200);
    expect_part("\"name\":\"f\",\"input\":{}}]");
    json_free(parsed());
}

/* Arguments as tags: of a string as it is, in pieces, with what JSON needs around it. */
static void arguments_in_tags_come_in_pieces(void **state)
{
    (void)state;
#define SCHEMA "{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\"}},\"required\":[\"s\"]}"
    static const char *const posts[][3] = {
        {"/v1/chat/completions",
         "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"function\":{\"name\":\"f\","
         "\"parameters\":" SCHEMA "}}]",
         "\"arguments\":\""},
        {"/v1/responses",
         "\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":" SCHEMA "}]",
         "\"delta\":\""},
        {"/v1/messages",
         "\"max_tokens\":99,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"name\":\"f\","
         "\"input_schema\":" SCHEMA "}]",
         "\"partial_json\":\""}};
    stop_server();
    fake.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools|tojson }}{# <function= "
                         "<parameter= #}";
    fake.ctx = 1000;
    start_server();
    fake.text = "<tool_call>\n<function=f>\n<parameter=s>\n5 \"\xc3\xa9\n</parameter>\n</function>\n</tool_call>";
    for (size_t i = 0; i < sizeof posts / sizeof *posts; i++) {
        buf all = {0};
        size_t n;
        snprintf(body, sizeof body, "{%s,\"stream\":true}", posts[i][1]);
        if (call("POST", posts[i][0], body) != 200) fail_msg("%s", reply);
        assert_non_null(fake.last.constraint);
        join_pieces(posts[i][2], &all, &n);
        assert_string_equal(buf_cstr(&all), "{\"s\": \"5 \\\"\xc3\xa9\"}");
        if (n < 5) fail_msg("%s: only %zu pieces", posts[i][0], n);
        snprintf(body, sizeof body, "{%s}", posts[i][1]);
        assert_int_equal(call("POST", posts[i][0], body), 200);
        if (i == 2) expect_part("\"input\":{\"s\": \"5 \\\"\xc3\xa9\"}");
        else expect_part("\"arguments\":\"{\\\"s\\\": \\\"5 \\\\\\\"\xc3\xa9\\\"}\"");
        buf_free(&all);
    }
    snprintf(body, sizeof body, "{%s,\"tool_choice\":\"required\",\"receipt\":true}", posts[0][1]);
    assert_int_equal(call("POST", posts[0][0], body), 200);
    expect_part("\"tool_calls\":{\"form\":[{\"before\":\"<tool_call>\\n<function=f>\\n\",");
    expect_part("\"key\":\"<parameter=\",\"value\":\">\\n\",\"end\":\"\\n</parameter>\\n\"");
    expect_error(400,
                 chat("\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{\"patternProperties\":{\"a\":{}}}}}]"),
                 "tools", NULL);
    expect_part("#/patternProperties");
    stop_server();
    fake.chat_template = chat_source;
    fake.ctx = 128;
    start_server();
}

static void responses(void **state)
{
    (void)state;
    fake.text = "<think>\nhm\n</think>\n\nhello";
    assert_int_equal(call("POST", "/v1/responses", "{\"input\":\"hi\",\"instructions\":\"be\",\"store\":true}"), 200);
    assert_string_equal(fake.dec, "<0><2>system:be\n<2>user:hi\nassistant:");
    expect_part("{\"id\":\"resp_");
    expect_part("\"object\":\"response\"");
    expect_part("\"status\":\"completed\"");
    expect_part("\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]");
    expect_part("\"content\":[{\"type\":\"output_text\",\"text\":\"hello\",\"annotations\":[],\"logprobs\":[]}]");
    expect_part("\"output_tokens_details\":{\"reasoning_tokens\":10}");
    assert_null(strstr(reply, "incomplete\""));
    expect_part("\"input_tokens_details\":{\"cached_tokens\":");
    json_free(parsed());
    for (int streams = 0; streams < 2; streams++) { /* within the message, and within the reasoning */
        snprintf(body, sizeof body, "{\"input\":\"hi\",\"max_output_tokens\":24,\"stream\":%s}",
                 streams ? "true" : "false");
        assert_int_equal(call("POST", "/v1/responses", body), 200);
        expect_part("\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}],"
                    "\"status\":\"completed\"");
        expect_part("\"type\":\"message\",\"status\":\"incomplete\"");
        expect_part("\"incomplete_details\":{\"reason\":\"max_output_tokens\"}");
        snprintf(body, sizeof body, "{\"input\":\"hi\",\"max_output_tokens\":9,\"stream\":%s}",
                 streams ? "true" : "false");
        assert_int_equal(call("POST", "/v1/responses", body), 200);
        expect_part("\"text\":\"h\"}],\"status\":\"incomplete\"");
        expect_part("\"reasoning_tokens\":9");
    }
    fake.text = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
    assert_int_equal(call("POST", "/v1/responses",
                          "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"u\"}]},"
                          "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},"
                          "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"r\"}],\"stream\":true,"
                          "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}"),
                     200);
    static const char *const events[] = {"response.created",
                                         "response.in_progress",
                                         "response.output_item.added",
                                         "response.function_call_arguments.delta",
                                         "response.function_call_arguments.done",
                                         "response.output_item.done",
                                         "response.completed",
                                         "data: [DONE]"};
    const char *at = reply;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        at = strstr(at, events[i]);
        if (!at) fail_msg("no %s: %s", events[i], reply);
    }
    static const char *const bad[][2] = {{"\"previous_response_id\":\"x\"", "previous_response_id"},
                                         {"\"conversation\":\"x\"", "conversation"},
                                         {"\"background\":true", "background"},
                                         {"\"messages\":[]", "messages"},
                                         {"\"tools\":[{\"type\":\"web_search\"}]", "tools"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{\"input\":\"a\",%s}", bad[i][0]);
        expect_error(400, call("POST", "/v1/responses", body), bad[i][1], NULL);
    }
    expect_error(400, call("POST", "/v1/responses", "{}"), "input", "missing_field");
    expect_error(400, call("POST", "/v1/responses", "{\"input\":\"a\",\"max_output_tokens\":0}"), "max_output_tokens",
                 "out_of_range");
    expect_error(400, call("POST", "/v1/responses", "{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"x\"}}}"),
                 "text.format", "unsupported");
    /* null is as if it were not there: a history of openai-python is full of it */
    assert_int_equal(
        call("POST", "/v1/chat/completions",
             "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\",\"function_call\":null,\"audio\":null,"
             "\"tool_calls\":null},{\"role\":\"user\",\"content\":\"b\"}],\"max_completion_tokens\":3,"
             "\"max_tokens\":null,\"repetition_penalty\":1.1,\"repeat_penalty\":null,\"nothing\":null}"),
        200);
    expect_error(400,
                 call("POST", "/v1/chat/completions",
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"b\"}],\"max_completion_tokens\":3,"
                      "\"max_tokens\":3}"),
                 "max_completion_tokens", "duplicate_field");
}

static void messages_of_another_api(void **state)
{
    (void)state;
    fake.text = "hello END";
    assert_int_equal(
        call("POST", "/v1/messages",
             "{\"max_tokens\":50,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"stop_sequences\":[\"END\"],"
             "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}"),
        200);
    assert_string_equal(fake.dec, "<0><2>system:s\n<2>user:hi\nassistant:");
    expect_part("{\"id\":\"msg_");
    expect_part("\"type\":\"message\",\"role\":\"assistant\"");
    expect_part("\"content\":[{\"type\":\"text\",\"text\":\"hello ");
    expect_part("\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"");
    json_free(parsed());
    fake.text = "so <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
    assert_int_equal(
        call("POST", "/v1/messages",
             "{\"max_tokens\":90,\"stream\":true,\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}],"
             "\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":[{\"type\":"
             "\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":"
             "\"tool_result\",\"tool_use_id\":\"c\",\"content\":\"r\"}]}]}"),
        200);
    static const char *const events[] = {
        "event: message_start",      "event: content_block_start",   "\"type\":\"text_delta\"",
        "event: content_block_stop", "\"type\":\"tool_use\"",        "\"partial_json\":\"{\\\"a\\\":1}\"",
        "event: content_block_stop", "\"stop_reason\":\"tool_use\"", "event: message_stop"};
    const char *at = reply;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        at = strstr(at, events[i]);
        if (!at) fail_msg("no %s: %s", events[i], reply);
    }
    static const char *const choices[] = {"{\"type\":\"any\"}", "{\"type\":\"tool\",\"name\":\"f\"}",
                                          "{\"type\":\"x\"}"};
    assert_null(strstr(reply, "[DONE]"));
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        snprintf(body, sizeof body,
                 "{\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],\"tool_choice\":%s}",
                 choices[i]);
        assert_int_equal(call("POST", "/v1/messages", body), 400);
    }
    assert_int_equal(
        call("POST", "/v1/messages/count_tokens", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"), 200);
    expect_part("{\"input_tokens\":20}");
    assert_int_equal(call("POST", "/v1/messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"), 400);
    expect_part("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"max_tokens");
    assert_int_equal(
        call("POST", "/v1/messages", "{\"max_tokens\":5,\"messages\":[{\"role\":\"pope\",\"content\":\"\"}]}"), 400);
    assert_int_equal(call("POST", "/v1/messages", "{\"max_tokens\":5,\"x\":1}"), 400);
    static const char *const outputs[][2] = {
        {"{\"effort\":\"low\",\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"object\"}}}", NULL},
        {"{\"format\":null}", NULL},
        {"{\"format\":{\"type\":\"json_schema\"}}", "response_format"},
        {"{\"format\":{\"type\":\"xml\"}}", "output_config"},
        {"{\"form\":1}", "form"},
        {"5", "output_config"}};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        snprintf(body, sizeof body,
                 "{\"max_tokens\":9,\"output_config\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}",
                 outputs[i][0]);
        assert_int_equal(call("POST", "/v1/messages", body), outputs[i][1] ? 400 : 200);
        if (outputs[i][1]) expect_part(outputs[i][1]);
        if (!i) assert_non_null(fake.last.constraint);
    }
}

static void prompts_are_tokenized(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/tokenize",
                          "{\"messages\":[{\"role\":\"user\",\"content\":\"<s>\"}],"
                          "\"add_generation_prompt\":false,\"return_token_strs\":true}"),
                     200);
    expect_part("\"tokens\":[0,2,120,118,104,117,61,63,118,65,13]");
    expect_part("\"count\":11");
    expect_error(400, call("POST", "/tokenize", "{\"messages\":[],\"prompt\":\"a\"}"), NULL, "invalid_value");
    expect_error(400, call("POST", "/tokenize", "{\"messages\":[]}"), "messages", NULL);
    assert_int_equal(call("GET", "/props", NULL), 200);
    expect_part("\"chat_template\":\"{{ bos_token }}");
    expect_part("\"generation_fields\":{\"temperature\":{\"doc\":\"divides the logits");
    expect_part("\"min\":0,\"max\":100},\"top_k\":");
    expect_part("\"words\":[\"std\",\"greedy\",");
}

static void without_a_template_there_is_no_chat(void **state)
{
    (void)state;
    stop_server();
    fake.chat_template = NULL;
    start_server();
    expect_error(400, chat(""), NULL, "unsupported");
    expect_part("--chat-template");
    stop_server();
    fake.chat_template = "{% if %}";
    start_server();
    expect_error(400, chat(""), NULL, "unsupported");
    stop_server();
    fake.chat_template = chat_source;
    start_server();
}

static int with_template(void **state)
{
    fake.chat_template = chat_source;
    return setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_the_shape_of_the_api),
        cmocka_unit_test(messages_are_put_right),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(streams_add_up),
        cmocka_unit_test(logprobs_have_the_form_of_chats),
        cmocka_unit_test(calls_of_tools),
        cmocka_unit_test(arguments_come_in_pieces),
        cmocka_unit_test(arguments_in_tags_come_in_pieces),
        cmocka_unit_test(responses),
        cmocka_unit_test(messages_of_another_api),
        cmocka_unit_test(prompts_are_tokenized),
        cmocka_unit_test(without_a_template_there_is_no_chat),
    };
    return cmocka_run_group_tests(tests, with_template, teardown);
}
