/* chat_messages.c - see chat_messages.h. */
#include "chat/chat_messages.h"

#include "base/mem.h"

#include <string.h>

/* The texts of a message's parts, joined by a line end. */
static bool put_content(buf *out, const json *content)
{
    if (json_type(content) == JSON_STRING) buf_str(out, json_str(content, ""));
    size_t n = 0;
    for (const json *p = json_type(content) == JSON_ARRAY ? json_first(content) : NULL; p; p = json_next(p)) {
        const char *text = json_str(json_get(p, "text"), json_str(json_get(p, "refusal"), ""));
        if (n++) buf_byte(out, '\n');
        buf_str(out, text);
    }
    return !out->bad;
}

static void add_text(json *message, const chat_caps *caps, const char *text)
{
    if (!caps->parts) {
        json_add_str(message, "content", text);
        return;
    }
    json *part = json_add_object(json_add_array(message, "content"), NULL);
    json_add_str(part, "type", "text");
    json_add_str(part, "text", text);
}

/* The last 9 letters and digits of an id. */
static void add_short_id(json *to, const char *key, const char *id)
{
    char out[10] = "000000000";
    size_t n = sizeof out - 1;
    for (size_t i = strlen(id); i-- > 0 && n;) {
        const char c = id[i];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) out[--n] = c;
    }
    json_add_str(to, key, out);
}

static void add_id(json *to, const char *key, const char *id, const chat_caps *caps)
{
    if (caps->short_ids) add_short_id(to, key, id);
    else json_add_str(to, key, id);
}

/* Arguments as an object or as text, whatever they came as. */
static void add_arguments(json *function, const json *given, bool as_object)
{
    json *parsed = NULL;
    const char *text = json_str(given, NULL);
    if (as_object && text && json_parse(&parsed, span_str(*text ? text : "{}"), "arguments", NULL) == OK) {
        json_add_copy(function, "arguments", parsed);
        json_free(parsed);
        return;
    }
    if (!as_object && given && !text) {
        buf b = {0};
        json_print(&b, given, false);
        json_add_str(function, "arguments", buf_cstr(&b));
        buf_free(&b);
        return;
    }
    if (given) json_add_copy(function, "arguments", given);
    else if (as_object) json_add_object(function, "arguments");
    else json_add_str(function, "arguments", "{}");
}

static void add_calls(json *message, const json *calls, const chat_caps *caps)
{
    json *list = json_add_array(message, "tool_calls");
    for (const json *c = json_first(calls); c; c = json_next(c)) {
        const json *f = json_get(c, "function");
        json *call = json_add_object(list, NULL);
        add_id(call, "id", json_str(json_get(c, "id"), "call_0"), caps);
        json_add_str(call, "type", "function");
        json *function = json_add_object(call, "function");
        json_add_str(function, "name", json_str(json_get(f, "name"), ""));
        add_arguments(function, json_get(f, "arguments"), caps->object_arguments);
    }
}

/* Calls as text, in the plain format. */
static void put_calls(buf *out, const json *calls)
{
    for (const json *c = json_first(calls); c; c = json_next(c)) {
        const json *f = json_get(c, "function"), *given = json_get(f, "arguments");
        if (out->n) buf_byte(out, '\n');
        buf_str(out, "<tool_call>\n{\"name\": ");
        json_quote(out, span_str(json_str(json_get(f, "name"), "")));
        buf_str(out, ", \"arguments\": ");
        if (json_type(given) == JSON_STRING) buf_str(out, *json_str(given, "") ? json_str(given, "") : "{}");
        else if (given) json_print(out, given, false);
        else buf_str(out, "{}");
        buf_str(out, "}\n</tool_call>");
    }
}

static void put_tools(buf *out, const json *tools)
{
    if (out->n) buf_str(out, "\n\n");
    buf_str(out, "You can call functions. They are described here by JSON schemas:\n<tools>\n");
    for (const json *t = json_first(tools); t; t = json_next(t)) {
        json_print(out, t, false);
        buf_byte(out, '\n');
    }
    buf_str(out,
            "</tools>\nTo call one, write its name and its arguments as a JSON object between these tags, once for "
            "each call:\n<tool_call>\n{\"name\": \"...\", \"arguments\": {...}}\n</tool_call>");
}

static bool is_role(const json *m, const char *role) { return strcmp(json_str(json_get(m, "role"), ""), role) == 0; }
static bool is_system(const json *m) { return is_role(m, "system") || is_role(m, "developer"); }

/* What is carried from message to message. */
typedef struct carry {
    const chat_caps *caps;
    buf system; /* waits for a message of the user */
} carry;

/* A message whose role the template leaves out becomes one of the user. */
static void add_result(json *list, const json *m, const char *text, const chat_caps *caps)
{
    json *o = json_add_object(list, NULL);
    json_add_str(o, "role", caps->results ? "tool" : "user");
    if (caps->results) {
        add_text(o, caps, text);
        const char *id = json_str(json_get(m, "tool_call_id"), NULL), *name = json_str(json_get(m, "name"), NULL);
        if (id) add_id(o, "tool_call_id", id, caps);
        if (name) json_add_str(o, "name", name);
        return;
    }
    buf b = {0};
    buf_printf(&b, "<tool_response>\n%s\n</tool_response>", text);
    add_text(o, caps, buf_cstr(&b));
    buf_free(&b);
}

static void add_assistant(json *list, const json *m, buf *text, const chat_caps *caps)
{
    const json *calls = json_get(m, "tool_calls");
    const char *reasoning = json_str(json_get(m, "reasoning_content"), NULL);
    json *o = json_add_object(list, NULL);
    const bool has_calls = json_count(calls) > 0;
    json_add_str(o, "role", "assistant");
    if (has_calls && !caps->calls) put_calls(text, calls);
    const bool none = json_type(json_get(m, "content")) == JSON_NULL || (caps->only_null_content && !text->n);
    if (none && has_calls && caps->calls && caps->null_content) json_add_null(o, "content");
    else add_text(o, caps, buf_cstr(text));
    if (reasoning) {
        json_add_str(o, "reasoning_content", reasoning);
        json_add_str(o, "thinking", reasoning); /* as gpt-oss has it */
    }
    if (has_calls && caps->calls) add_calls(o, calls, caps);
}

static void add_other(json *list, const json *m, const char *text, carry *c)
{
    const chat_caps *caps = c->caps;
    const char *role = json_str(json_get(m, "role"), "user"), *name = json_str(json_get(m, "name"), NULL);
    json *o = json_add_object(list, NULL);
    json_add_str(o, "role", is_role(m, "developer") && !caps->developer ? "system" : role);
    if (c->system.n && is_role(m, "user")) {
        buf_printf(&c->system, "\n\n%s", text);
        add_text(o, caps, buf_cstr(&c->system));
        c->system.n = 0;
    } else {
        add_text(o, caps, text);
    }
    if (name) json_add_str(o, "name", name);
}

static void add_message(json *list, const json *m, const json *tools, carry *c)
{
    buf text = {0};
    put_content(&text, json_get(m, "content"));
    if (tools) put_tools(&text, tools);
    if (is_system(m) && !c->caps->system) {
        if (c->system.n) buf_str(&c->system, "\n\n");
        buf_str(&c->system, buf_cstr(&text));
    } else if (is_role(m, "tool")) {
        add_result(list, m, buf_cstr(&text), c->caps);
    } else if (is_role(m, "assistant")) {
        add_assistant(list, m, &text, c->caps);
    } else {
        add_other(list, m, buf_cstr(&text), c);
    }
    buf_free(&text);
}

json *chat_messages_put_right(const json *messages, const json *tools, const chat_caps *caps)
{
    json *holder = json_new_object(), *list = json_add_array(holder, "messages");
    carry c = {.caps = caps};
    const json *told = json_count(tools) && !caps->tools ? tools : NULL;
    if (told && !is_system(json_first(messages))) {
        json *first = json_new_object();
        json_add_str(first, "role", "system");
        add_message(list, first, told, &c);
        json_free(first);
        told = NULL;
    }
    for (const json *m = json_first(messages); m; m = json_next(m)) {
        add_message(list, m, told, &c);
        told = NULL;
    }
    if (c.system.n) { /* nobody came to say it */
        json *o = json_add_object(list, NULL);
        json_add_str(o, "role", "user");
        add_text(o, caps, buf_cstr(&c.system));
    }
    buf_free(&c.system);
    if (list) return holder;
    json_free(holder);
    return NULL;
}

json *chat_messages_system_first(const json *messages)
{
    json *holder = json_new_object(), *list = json_add_array(holder, "messages");
    buf all = {0};
    for (const json *m = json_first(messages); m; m = json_next(m)) {
        if (!is_system(m)) continue;
        if (all.n) buf_str(&all, "\n\n");
        put_content(&all, json_get(m, "content"));
    }
    json *first = json_add_object(list, NULL);
    json_add_str(first, "role", "system");
    json_add_str(first, "content", buf_cstr(&all));
    for (const json *m = json_first(messages); m; m = json_next(m))
        if (!is_system(m)) json_add_copy(list, NULL, m);
    buf_free(&all);
    if (list) return holder;
    json_free(holder);
    return NULL;
}

json *chat_message_add(json *list, const char *role, const char *content)
{
    json *m = json_add_object(list, NULL);
    json_add_str(m, "role", role);
    json_add_str(m, "content", content);
    return m;
}
