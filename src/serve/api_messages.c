/* api_messages.c - POST /v1/messages and /v1/messages/count_tokens of the API of Anthropic: they become chats. */
#include "base/mem.h"
#include "serve/api_list.h"
#include "serve/chat_request.h"
#include "serve/messages_json.h"
#include "chat/chat_messages.h"

#include <string.h>

typedef struct messages_fields {
    const char *model;
    const json *messages, *system, *tools, *tool_choice, *stop, *thinking, *max_tokens, *temperature, *top_p, *top_k,
        *output;
    bool stream;
} messages_fields;

#define AT(member) .offset = offsetof(messages_fields, member)
static const field messages_rows[] = {
    {.name = "model", .type = FIELD_TEXT, AT(model)},
    {.name = "messages", .type = FIELD_NODE, AT(messages)},
    {.name = "system", .type = FIELD_NODE, AT(system)},
    {.name = "tools", .type = FIELD_NODE, AT(tools)},
    {.name = "tool_choice", .type = FIELD_NODE, AT(tool_choice)},
    {.name = "stop_sequences", .type = FIELD_NODE, AT(stop)},
    {.name = "thinking", .type = FIELD_NODE, AT(thinking)},
    {.name = "max_tokens", .type = FIELD_NODE, AT(max_tokens)},
    {.name = "temperature", .type = FIELD_NODE, AT(temperature)},
    {.name = "top_p", .type = FIELD_NODE, AT(top_p)},
    {.name = "top_k", .type = FIELD_NODE, AT(top_k)},
    {.name = "stream", .type = FIELD_BOOL, AT(stream)},
    {.name = "output_config", .type = FIELD_NODE, AT(output)},
    {.name = "metadata", .type = FIELD_IGNORE},
    {.name = "service_tier", .type = FIELD_IGNORE},
    {NULL},
};

static bool refuse_message(exchange *x, const char *at, const char *why)
{
    reply_error(x, 400, at, "invalid_value", "%s: %s", at, why);
    return false;
}

static const char *text_of(const json *v, const char *key) { return json_str(json_get(v, key), ""); }

/* A text, or blocks of text, joined. */
static bool put_text(exchange *x, const char *at, const json *v, buf *out)
{
    if (json_type(v) == JSON_STRING) return buf_str(out, json_str(v, ""));
    if (json_type(v) != JSON_ARRAY) return field_wrong_type(x, at, "a string or an array of blocks", v);
    for (const json *b = json_first(v); b; b = json_next(b)) {
        if (strcmp(text_of(b, "type"), "text") != 0)
            return refuse_message(x, at, "only blocks of type text are possible here");
        if (!fields_only(x, at, b, "type text cache_control citations")) return false;
        if (out->n) buf_byte(out, '\n');
        buf_str(out, text_of(b, "text"));
    }
    return true;
}

static const char *block_members(const char *type)
{
    if (strcmp(type, "text") == 0) return "type text cache_control citations";
    if (strcmp(type, "tool_use") == 0) return "type id name input cache_control caller";
    if (strcmp(type, "tool_result") == 0) return "type tool_use_id content is_error cache_control";
    return "type thinking signature data source cache_control";
}

/* One block of a message: what it adds to its text, or a message or call of its own. */
static bool put_block(exchange *x, json *list, const json *b, buf *text, buf *reasoning, json *calls)
{
    const char *type = text_of(b, "type");
    buf part = {0};
    if (!fields_only(x, "messages", b, block_members(type))) return false;
    if (strcmp(type, "text") == 0) {
        if (text->n) buf_byte(text, '\n');
        return buf_str(text, text_of(b, "text"));
    }
    if (strcmp(type, "thinking") == 0) return buf_str(reasoning, text_of(b, "thinking"));
    if (strcmp(type, "redacted_thinking") == 0) return true;
    if (strcmp(type, "tool_use") == 0) {
        json *c = json_add_object(calls, NULL), *f = json_add_object(c, "function");
        json_add_str(c, "id", text_of(b, "id"));
        json_add_str(c, "type", "function");
        json_add_str(f, "name", text_of(b, "name"));
        json_print(&part, json_get(b, "input"), false);
        json_add_str(f, "arguments", buf_cstr(&part));
        buf_free(&part);
        return true;
    }
    if (strcmp(type, "tool_result") != 0) {
        reply_error(x, 400, "messages", "unsupported", "messages: blocks of type \"%.60s\" are not possible", type);
        return false;
    }
    const json *content = json_get(b, "content");
    const bool good = !content || put_text(x, "messages", content, &part);
    if (good) json_add_str(chat_message_add(list, "tool", buf_cstr(&part)), "tool_call_id", text_of(b, "tool_use_id"));
    buf_free(&part);
    return good;
}

static bool put_message(exchange *x, json *list, const json *m)
{
    const char *role = text_of(m, "role");
    const json *content = json_get(m, "content");
    const bool assistant = strcmp(role, "assistant") == 0;
    if (json_type(m) != JSON_OBJECT) return field_wrong_type(x, "messages", "an array of objects", m);
    if (!assistant && strcmp(role, "user") != 0) return refuse_message(x, "messages", "a role is user or assistant");
    if (!fields_only(x, "messages", m, "role content")) return false;
    if (json_type(content) == JSON_STRING) return chat_message_add(list, role, json_str(content, "")) != NULL;
    if (json_type(content) != JSON_ARRAY || !json_count(content))
        return field_wrong_type(x, "content", "a string or an array of blocks", content);
    buf text = {0}, reasoning = {0};
    json *holder = json_new_object(), *calls = json_add_array(holder, "tool_calls");
    bool good = true, results = false;
    for (const json *b = json_first(content); b && good; b = json_next(b)) {
        results |= strcmp(text_of(b, "type"), "tool_result") == 0;
        good = put_block(x, list, b, &text, &reasoning, calls);
    }
    if (good && (text.n || !results)) {
        json *out = chat_message_add(list, role, buf_cstr(&text));
        if (json_count(calls)) json_add_copy(out, "tool_calls", calls);
        if (reasoning.n) json_add_str(out, "reasoning_content", buf_cstr(&reasoning));
    }
    json_free(holder);
    buf_free(&text);
    buf_free(&reasoning);
    return good;
}

static bool put_messages(exchange *x, const messages_fields *f, json *to)
{
    json *list = json_add_array(to, "messages");
    buf system = {0};
    bool good = !f->system || put_text(x, "system", f->system, &system);
    if (good && system.n) chat_message_add(list, "system", buf_cstr(&system));
    buf_free(&system);
    if (!good) return false;
    if (!f->messages) {
        reply_error(x, 400, "messages", "missing_field", "messages is missing");
        return false;
    }
    if (json_type(f->messages) != JSON_ARRAY) return field_wrong_type(x, "messages", "an array", f->messages);
    if (!json_count(f->messages)) return refuse_message(x, "messages", "it is empty");
    const json *last = NULL;
    for (const json *m = json_first(f->messages); m && good; m = json_next(m)) good = put_message(x, list, last = m);
    if (good && strcmp(text_of(last, "role"), "assistant") == 0) json_add_bool(to, "continue_final_message", true);
    return good;
}

static bool put_tools(exchange *x, const messages_fields *f, json *to)
{
    if (!f->tools) return true;
    if (json_type(f->tools) != JSON_ARRAY) return field_wrong_type(x, "tools", "an array", f->tools);
    json *list = json_add_array(to, "tools");
    for (const json *t = json_first(f->tools); t; t = json_next(t)) {
        const char *type = json_str(json_get(t, "type"), "custom");
        if (!fields_only(x, "tools", t, "type name description input_schema cache_control strict")) return false;
        if (strcmp(type, "custom") != 0)
            return refuse_message(x, "tools", "only tools with an input_schema are possible");
        json *o = json_add_object(list, NULL), *fn = json_add_object(o, "function");
        json_add_str(o, "type", "function");
        json_add_str(fn, "name", text_of(t, "name"));
        if (json_get(t, "description")) json_add_copy(fn, "description", json_get(t, "description"));
        if (json_get(t, "input_schema")) json_add_copy(fn, "parameters", json_get(t, "input_schema"));
    }
    return true;
}

static bool put_tool_choice(exchange *x, const messages_fields *f, json *to)
{
    const char *type = text_of(f->tool_choice, "type");
    if (!f->tool_choice) return true;
    if (!fields_only(x, "tool_choice", f->tool_choice, "type name disable_parallel_tool_use")) return false;
    if (json_bool(json_get(f->tool_choice, "disable_parallel_tool_use"), false))
        json_add_bool(to, "parallel_tool_calls", false);
    if (strcmp(type, "tool") == 0) {
        json *chosen = json_add_object(to, "tool_choice");
        json_add_str(chosen, "type", "function");
        json_add_str(json_add_object(chosen, "function"), "name", text_of(f->tool_choice, "name"));
    } else {
        json_add_str(to, "tool_choice", strcmp(type, "any") == 0 ? "required" : type);
    }
    return true;
}

static void put_thinking(const messages_fields *f, json *to)
{
    const char *type = text_of(f->thinking, "type");
    if (!*type) return;
    json_add_bool(json_add_object(to, "chat_template_kwargs"), "enable_thinking", strcmp(type, "disabled") != 0);
}

/* "output_config": {"effort", "format": {"type": "json_schema", "schema"}}. */
static bool put_output(exchange *x, const messages_fields *f, json *to)
{
    const json *effort = json_get(f->output, "effort"), *format = json_get(f->output, "format");
    if (!f->output) return true;
    if (json_type(f->output) != JSON_OBJECT) return field_wrong_type(x, "output_config", "an object", f->output);
    if (!fields_only(x, "output_config", f->output, "effort format")) return false;
    if (json_type(effort) != JSON_NULL) json_add_copy(to, "reasoning_effort", effort);
    if (json_type(format) == JSON_NULL) return true;
    if (json_type(format) != JSON_OBJECT) return field_wrong_type(x, "format", "an object", format);
    if (!fields_only(x, "output_config", format, "type schema")) return false;
    if (strcmp(text_of(format, "type"), "json_schema") != 0)
        return refuse_message(x, "output_config", "the type of a format is json_schema");
    json *form = json_add_object(to, "response_format"), *inner = json_add_object(form, "json_schema");
    json_add_str(form, "type", "json_schema");
    if (json_get(format, "schema")) json_add_copy(inner, "schema", json_get(format, "schema"));
    return true;
}

/* What becomes of the request: the fields of a chat. NULL: the reply is in x. */
static json *convert_messages(server *s, exchange *x, messages_fields *f, json **original)
{
    *original = body_read(s, x, f);
    json *to = *original ? json_new_object() : NULL;
    if (!to) return NULL;
    if (f->model) json_add_str(to, "model", f->model);
    bool good = put_messages(x, f, to) && put_tools(x, f, to) && put_tool_choice(x, f, to) && put_output(x, f, to);
    put_thinking(f, to);
    if (good) return to;
    json_free(to);
    return NULL;
}

static void handle_messages(server *s, exchange *x)
{
    messages_fields f = {0};
    json *original = NULL, *to = convert_messages(s, x, &f, &original);
    request r = {0};
    static const char *const copied[] = {"max_tokens", "temperature", "top_p", "top_k", NULL};
    if (to && !f.max_tokens) {
        reply_error(x, 400, "max_tokens", "missing_field", "max_tokens is missing");
        json_free(to);
        to = NULL;
    }
    for (const char *const *k = copied; to && *k; k++)
        if (json_get(original, *k)) json_add_copy(to, *k, json_get(original, *k));
    if (to && f.stop) json_add_copy(to, "stop", f.stop);
    if (to) json_add_bool(to, "stream", f.stream);
    if (to && request_read_chat(s, x, to, original, &r)) completion_start(s, x, &r);
    if (!to) json_free(original);
    request_free(&r);
}

static void handle_count(server *s, exchange *x)
{
    messages_fields f = {0};
    json *original = NULL, *to = convert_messages(s, x, &f, &original);
    request r = {.chat.generation_prompt = true, .body = to, .original = original};
    jinja_output text = {0};
    token_list ids = {0};
    const bool good = to && fields_read(x, chat_fields, false, to, &r) && chat_prompt_make(s, x, &r, &text, &ids);
    if (good) {
        json *root = json_new_object();
        json_add_int(root, "input_tokens", (int64_t)ids.n);
        reply_json(x, 200, root);
    }
    jinja_output_free(&text);
    token_list_free(&ids);
    request_free(&r);
}

const route route_messages = {.method = "POST",
                              .path = "/v1/messages",
                              .needs_engine = true,
                              .fields = messages_rows,
                              .reply = &messages_form,
                              .handle = handle_messages,
                              .error = messages_error_write};
const route route_count_tokens = {.method = "POST",
                                  .path = "/v1/messages/count_tokens",
                                  .needs_engine = true,
                                  .fields = messages_rows,
                                  .handle = handle_count,
                                  .error = messages_error_write};
