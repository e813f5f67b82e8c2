/* api_responses.c - POST /v1/responses of the OpenAI API, without state: a request becomes one for chat. */
#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/chat_request.h"
#include "serve/reply_form.h"
#include "chat/chat_messages.h"

#include <string.h>

typedef struct responses_fields {
    const char *model, *instructions;
    const json *input, *tools, *tool_choice, *text, *reasoning, *temperature, *top_p, *seed, *previous, *conversation,
        *parallel;
    int64_t max_tokens; /* 0: none is given */
    bool stream, background;
} responses_fields;

#define AT(member) .offset = offsetof(responses_fields, member)
static const field responses_rows[] = {
    {.name = "model", .type = FIELD_TEXT, AT(model)},
    {.name = "input", .type = FIELD_NODE, AT(input)},
    {.name = "instructions", .type = FIELD_TEXT, AT(instructions)},
    {.name = "tools", .type = FIELD_NODE, AT(tools)},
    {.name = "tool_choice", .type = FIELD_NODE, AT(tool_choice)},
    {.name = "parallel_tool_calls", .type = FIELD_NODE, AT(parallel)},
    {.name = "text", .type = FIELD_NODE, AT(text)},
    {.name = "reasoning", .type = FIELD_NODE, AT(reasoning)},
    {.name = "max_output_tokens", .type = FIELD_INT, .min = 1, .max = 1 << 30, AT(max_tokens)},
    {.name = "temperature", .type = FIELD_NODE, AT(temperature)},
    {.name = "top_p", .type = FIELD_NODE, AT(top_p)},
    {.name = "seed", .type = FIELD_NODE, AT(seed)},
    {.name = "stream", .type = FIELD_BOOL, AT(stream)},
    {.name = "background", .type = FIELD_BOOL, AT(background)},
    {.name = "previous_response_id", .type = FIELD_NODE, AT(previous)},
    {.name = "conversation", .type = FIELD_NODE, AT(conversation)},
    {.name = "include", .type = FIELD_IGNORE},
    {.name = "truncation", .type = FIELD_IGNORE},
    {.name = "stream_options", .type = FIELD_IGNORE},
    FIELDS_WITHOUT_EFFECT,
    {NULL},
};

static bool refuse_input(exchange *x, const char *at, const char *code, const char *why)
{
    reply_error(x, 400, at, code, "%s: %s", at, why);
    return false;
}

static const char *text_of(const json *v, const char *key) { return json_str(json_get(v, key), ""); }
static bool words_equal(const char *word, const char *other) { return strcmp(word, other) == 0; }

/* Content: a text, or parts, whose types become those of chats. */
static bool put_content(exchange *x, json *message, const json *v)
{
    if (json_type(v) == JSON_STRING) return json_add_str(message, "content", json_str(v, "")) != NULL;
    if (json_type(v) != JSON_ARRAY) return field_wrong_type(x, "input", "a string or an array of parts", v);
    json *list = json_add_array(message, "content");
    for (const json *p = json_first(v); p; p = json_next(p)) {
        const char *type = text_of(p, "type");
        if (!words_equal(type, "input_text") && !words_equal(type, "output_text") && !words_equal(type, "text") &&
            !words_equal(type, "refusal")) {
            reply_error(x, 400, "input", "unsupported", "input: parts of type \"%.60s\" are not possible, only text",
                        type);
            return false;
        }
        if (!fields_only(x, "input", p, "type text refusal annotations logprobs")) return false;
        json *part = json_add_object(list, NULL);
        json_add_str(part, "type", "text");
        json_add_str(part, "text", words_equal(type, "refusal") ? text_of(p, "refusal") : text_of(p, "text"));
    }
    return true;
}

/* A call stands in the message of the assistant before it, or in one of its own. */
static void put_call(json *list, json **calls, const json *item)
{
    if (!*calls) {
        json *m = json_add_object(list, NULL);
        json_add_str(m, "role", "assistant");
        json_add_null(m, "content");
        *calls = json_add_array(m, "tool_calls");
    }
    json *c = json_add_object(*calls, NULL), *f = json_add_object(c, "function");
    json_add_str(c, "id", text_of(item, "call_id"));
    json_add_str(c, "type", "function");
    json_add_str(f, "name", text_of(item, "name"));
    json_add_str(f, "arguments", text_of(item, "arguments"));
}

static bool put_item(exchange *x, json *list, json **calls, const json *item)
{
    const char *type = json_str(json_get(item, "type"), "message");
    if (json_type(item) != JSON_OBJECT) return field_wrong_type(x, "input", "a string or an array of items", item);
    if (words_equal(type, "message") && !fields_only(x, "input", item, "type id status role content phase"))
        return false;
    if ((words_equal(type, "function_call") || words_equal(type, "function_call_output")) &&
        !fields_only(x, "input", item, "type id status call_id name arguments output caller namespace"))
        return false;
    if (words_equal(type, "reasoning")) return true; /* what was thought is not told again */
    if (words_equal(type, "function_call")) {
        put_call(list, calls, item);
        return true;
    }
    *calls = NULL;
    if (!words_equal(type, "message") && !words_equal(type, "function_call_output")) {
        reply_error(x, 400, "input", "unsupported", "input: items of type \"%.60s\" are not possible", type);
        return false;
    }
    json *m = json_add_object(list, NULL);
    if (words_equal(type, "message")) {
        json_add_str(m, "role", text_of(item, "role"));
        return put_content(x, m, json_get(item, "content"));
    }
    json_add_str(m, "role", "tool");
    json_add_str(m, "tool_call_id", text_of(item, "call_id"));
    return put_content(x, m, json_get(item, "output"));
}

static bool put_input(exchange *x, const responses_fields *f, json *to)
{
    json *list = json_add_array(to, "messages"), *calls = NULL;
    if (f->instructions) chat_message_add(list, "developer", f->instructions);
    if (!f->input) {
        reply_error(x, 400, "input", "missing_field", "input is missing");
        return false;
    }
    if (json_type(f->input) != JSON_ARRAY) {
        if (json_type(f->input) != JSON_STRING) return field_wrong_type(x, "input", "a string or an array", f->input);
        return chat_message_add(list, "user", json_str(f->input, "")) != NULL;
    }
    for (const json *item = json_first(f->input); item; item = json_next(item))
        if (!put_item(x, list, &calls, item)) return false;
    return true;
}

static bool put_tools(exchange *x, const responses_fields *f, json *to)
{
    static const char *const copied[] = {"name", "description", "parameters", "strict", NULL};
    if (f->tools && json_type(f->tools) != JSON_ARRAY) return field_wrong_type(x, "tools", "an array", f->tools);
    json *list = f->tools ? json_add_array(to, "tools") : NULL;
    for (const json *t = json_first(f->tools); t; t = json_next(t)) {
        if (!words_equal(text_of(t, "type"), "function"))
            return refuse_input(x, "tools", "unsupported", "only tools of type function are possible");
        if (!fields_only(x, "tools", t, "type name description parameters strict")) return false;
        json *o = json_add_object(list, NULL), *fn = json_add_object(o, "function");
        json_add_str(o, "type", "function");
        for (const char *const *k = copied; *k; k++)
            if (json_get(t, *k)) json_add_copy(fn, *k, json_get(t, *k));
    }
    if (json_type(f->tool_choice) == JSON_OBJECT) {
        json *chosen = json_add_object(to, "tool_choice");
        json_add_str(chosen, "type", text_of(f->tool_choice, "type"));
        json_add_str(json_add_object(chosen, "function"), "name", text_of(f->tool_choice, "name"));
    } else if (f->tool_choice) {
        json_add_copy(to, "tool_choice", f->tool_choice);
    }
    return true;
}

/* text.format has the schema beside its name; response_format has both in a member of its own. */
static bool put_format(exchange *x, const responses_fields *f, json *to)
{
    const json *format = json_get(f->text, "format");
    if (f->text && json_type(f->text) != JSON_OBJECT) return field_wrong_type(x, "text", "an object", f->text);
    if (!format) return true;
    const char *type = text_of(format, "type");
    if (!words_equal(type, "text") && !words_equal(type, "json_object") && !words_equal(type, "json_schema")) {
        reply_error(x, 400, "text.format", "unsupported",
                    "text.format: \"%.60s\" is none of text, json_object and json_schema", type);
        return false;
    }
    json *o = json_add_object(to, "response_format");
    json_add_str(o, "type", type);
    if (!words_equal(type, "json_schema")) return true;
    json *inner = json_add_object(o, "json_schema");
    for (const json *m = json_first(format); m; m = json_next(m))
        if (!words_equal(json_key(m), "type")) json_add_copy(inner, json_key(m), m);
    return true;
}

static bool convert_input(exchange *x, const responses_fields *f, json *to)
{
    if (f->previous)
        return refuse_input(x, "previous_response_id", "unsupported", "nothing is stored; send the whole input");
    if (f->conversation)
        return refuse_input(x, "conversation", "unsupported", "nothing is stored; send the whole input");
    if (f->background) return refuse_input(x, "background", "unsupported", "replies are given at once");
    if (f->text && !fields_only(x, "text", f->text, "format verbosity")) return false;
    if (f->reasoning && !fields_only(x, "reasoning", f->reasoning, "effort summary generate_summary")) return false;
    if (f->model) json_add_str(to, "model", f->model);
    if (f->max_tokens) json_add_num(to, "max_tokens", (double)f->max_tokens);
    if (f->temperature) json_add_copy(to, "temperature", f->temperature);
    if (f->top_p) json_add_copy(to, "top_p", f->top_p);
    if (f->seed) json_add_copy(to, "seed", f->seed);
    if (f->parallel) json_add_copy(to, "parallel_tool_calls", f->parallel);
    if (json_get(f->reasoning, "effort")) json_add_copy(to, "reasoning_effort", json_get(f->reasoning, "effort"));
    json_add_bool(to, "stream", f->stream);
    return put_input(x, f, to) && put_tools(x, f, to) && put_format(x, f, to);
}

static void handle_responses(server *s, exchange *x)
{
    responses_fields f = {0};
    request r = {0};
    json *original = body_read(s, x, &f), *to = original ? json_new_object() : NULL;
    if (to && convert_input(x, &f, to)) {
        if (request_read_chat(s, x, to, original, &r)) completion_start(s, x, &r);
        request_free(&r);
        return;
    }
    json_free(to);
    json_free(original);
}

const route route_responses = {.method = "POST",
                               .path = "/v1/responses",
                               .needs_engine = true,
                               .fields = responses_rows,
                               .reply = &responses_form,
                               .handle = handle_responses};
